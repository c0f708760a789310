/* mutate_safetensors.c - libFuzzer's mutations; then, three times in four, the length in front is
 * made that of the header, and the data as long as its last offset says. */
#include "mutate.h"

#define MOST_DATA 4096

/* Where the JSON object that starts at byte 8 ends; 0: nowhere. */
static size_t end_of_header(const uint8_t *data, size_t n)
{
    int depth = 0, text = 0;
    for (size_t i = 8; i < n; i++) {
        const uint8_t c = data[i];
        if (text && c == '\\')
            i++;
        else if (c == '"')
            text = !text;
        else if (!text && (c == '{' || c == '}') && (depth += c == '{' ? 1 : -1) == 0)
            return i + 1;
    }
    return 0;
}

/* The largest number before a closing bracket. */
static size_t end_of_data(const uint8_t *data, size_t n)
{
    size_t largest = 0, number = 0;
    for (size_t i = 8; i < n; i++) {
        if (data[i] >= '0' && data[i] <= '9') {
            number = number < SIZE_MAX / 16 ? 10 * number + (size_t)(data[i] - '0') : number;
            continue;
        }
        if (data[i] == ']' && number > largest)
            largest = number;
        number = 0;
    }
    return largest;
}

static size_t repair(uint8_t *data, size_t n, size_t cap)
{
    size_t end = end_of_header(data, n);
    if (end == 0)
        return n;
    while (end < n && data[end] == ' ')
        end++;
    set_le(data, end - 8, 8);
    const size_t want = end_of_data(data, end);
    if (want > MOST_DATA || end + want > cap)
        return n;
    if (end + want > n)
        memset(data + n, 0, end + want - n);
    return end + want;
}

size_t mutate_safetensors(dice *d, uint8_t *data, size_t n, size_t cap)
{
    n = LLVMFuzzerMutate(data, n, cap);
    return n > 8 && throw_dice(d, 4) ? repair(data, n, cap) : n;
}
