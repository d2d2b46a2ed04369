#include <stdlib.h>
#include <string.h>

struct node {
    node *next;
    int value;
};

extern "C" __global__ void build_list(node **heads, int length)
{
    node *head = nullptr;
    for (int i = 0; i < length; i++) {
        node *item = static_cast<node *>(malloc(sizeof(node)));
        if (!item)
            break;
        memset(item, 0, sizeof *item);
        item->next = head, item->value = abs(i - length / 2);
        head = item;
    }
    heads[threadIdx.x] = head;
}

extern "C" __global__ void free_list(node **heads)
{
    for (node *item = heads[threadIdx.x]; item;) {
        node *next = item->next;
        free(item);
        item = next;
    }
    memcpy(&heads[threadIdx.x], &heads[0], sizeof(node *));
    delete new int(3);
}
