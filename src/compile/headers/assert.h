// <assert.h> for kernels: NVRTC defines assert once, the standard's header again at each inclusion,
// by what NDEBUG says there.
#undef assert
#ifdef NDEBUG
#define assert(expression) (static_cast<void>(0))
#else
#define assert(...)                                                                                \
    ((__VA_ARGS__)                                                                                 \
         ? static_cast<void>(0)                                                                    \
         : __assertfail(#__VA_ARGS__, __FILE__, __LINE__, __PRETTY_FUNCTION__, sizeof(char)))
#endif
