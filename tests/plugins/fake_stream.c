/* SPDX-License-Identifier: Apache-2.0 */
/* fake_stream.c - a GPU runtime with the ABI of libcudart that test_host_call hands launches to: a stream is
 * the address of a function. */
struct stream {
    void (*launch)(struct stream *stream, void (*function)(void *), void *argument);
};

int cudaLaunchHostFunc(void *stream, void (*function)(void *), void *argument);
const char *cudaGetErrorString(int code);

int cudaLaunchHostFunc(void *stream, void (*function)(void *), void *argument)
{
    if (!stream)
        return 400;
    ((struct stream *)stream)->launch(stream, function, argument);
    return 0;
}

const char *cudaGetErrorString(int code)
{
    return code == 400 ? "invalid resource handle" : "unrecognized error code";
}
