/* zero_match.c - patterns of names in universal_checkpoint_info: the part of Python's regular
 * expressions that DeepSpeed and Megatron-DeepSpeed use. */
#include <ctype.h>
#include <string.h>

#include "format/zero.h"

#define MOST_STEPS 100000u
#define MOST_DEPTH 100u /* elements that may repeat; each is a call within a call */

/* Characters of the element that begins a pattern: "a", ".", "\d"; 0 if it is not read. */
static size_t element(const char *p)
{
    if (*p == 0 || strchr("()[]{}|*+?", *p))
        return 0;
    if (*p != '\\')
        return 1;
    return p[1] == 'd' || p[1] == 'w' || (p[1] && !isalnum((unsigned char)p[1])) ? 2 : 0;
}

static int fits(const char *p, char c)
{
    if (c == 0)
        return 0;
    if (*p == '.')
        return c != '\n';
    if (*p != '\\')
        return *p == c;
    if (p[1] == 'd')
        return isdigit((unsigned char)c) != 0;
    if (p[1] == 'w')
        return isalnum((unsigned char)c) || c == '_';
    return p[1] == c;
}

/* 1, 0, or -1 for what is not read or takes too long. */
static int match(const char *p, const char *text, unsigned depth, uint64_t *steps)
{
    for (;;) {
        if (*steps == 0 || depth == MOST_DEPTH)
            return -1;
        --*steps;
        if (*p == 0)
            return 1;
        if (*p == '$' && p[1] == 0)
            return *text == 0;
        const size_t n = element(p);
        if (n == 0 || *p == '^' || *p == '$')
            return -1;
        const char how = p[n];
        const char *rest = p + n + (how == '*' || how == '+' || how == '?');
        if (rest == p + n) {
            if (!fits(p, *text))
                return 0;
            p = rest;
            text++;
            continue;
        }
        if (*rest == '?' || *rest == '*' || *rest == '+')
            return -1;
        size_t most = 0;
        while (fits(p, text[most]) && (how != '?' || most == 0))
            most++;
        *steps -= most < *steps ? most : *steps;
        for (size_t k = most + 1; k-- > (how == '+');) {
            const int found = match(rest, text + k, depth + 1, steps);
            if (found)
                return found;
        }
        return 0;
    }
}

int pg__zero_match(const char *pattern, const char *text, uint64_t *budget)
{
    const uint64_t before = *budget < MOST_STEPS ? *budget : MOST_STEPS;
    uint64_t steps = before;
    const int found = match(pattern + (*pattern == '^'), text, 0, &steps);
    *budget -= before - steps;
    return found;
}
