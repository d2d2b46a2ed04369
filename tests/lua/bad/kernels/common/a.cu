extern "C" __global__ void a() {}
