extern "C" __global__ void sample(cudaTextureObject_t texture, float *out, int width)
{
    const float u = (threadIdx.x + 0.5f) / width;
    out[threadIdx.x] = tex1Dfetch<float>(texture, int(threadIdx.x)) + tex2D<float4>(texture, u, 0.5f).y;
}

extern "C" __global__ void store(cudaSurfaceObject_t surface, const uchar4 *in)
{
    surf2Dwrite(in[threadIdx.x], surface, int(threadIdx.x * sizeof(uchar4)), int(blockIdx.x));
}
