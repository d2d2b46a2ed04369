extern "C" __global__ void e() {}
