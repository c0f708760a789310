/* page.c - what the HTML pages of libpg and its tools share: policy, colours, escaping. */
#include "pg/page.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "pg/version.h"

enum { NAME_BYTES = 1024 }; /* shown of a name */

static const char base_style[] =
    ":root{color-scheme:light dark;--bg:#fff;--fg:#1c2330;--mu:#5d6778;--ln:#e1e5eb;--ac:#2f6fed;"
    "--wa:#b54708;--go:#067647;--bx:#f6f7f9}\n"
    "@media(prefers-color-scheme:dark){:root{--bg:#10141b;--fg:#e6e9ef;--mu:#98a2b3;--ln:#273142;"
    "--ac:#6ea0ff;--wa:#f5a623;--go:#4fc38a;--bx:#181e28}}\n"
    "body{background:var(--bg);color:var(--fg);font:14px/1.45 system-ui,sans-serif;margin:2rem "
    "auto;max-width:1240px;padding:0 1rem}\n"
    "h1{font-size:1.35rem;margin:0;overflow-wrap:anywhere}p{margin:.2rem 0 "
    "1rem}.m{color:var(--mu)}.w{color:var(--wa)}.g{color:var(--go)}\n"
    ".k{display:flex;flex-wrap:wrap;gap:.8rem 2.2rem;margin:1.2rem 0}.k b{display:block;"
    "font-size:1.35rem}.k span{color:var(--mu)}\n"
    ".v{background:var(--bx);border-left:4px solid var(--ac);border-radius:4px;padding:.7rem "
    "1rem;margin:1.2rem 0;overflow-wrap:anywhere}.v.w{border-color:var(--wa);color:inherit}"
    ".v.g{border-color:var(--go);color:inherit}.v b{font-size:1.05rem}.v ul{margin:.4rem 0;"
    "padding-left:1.2rem;color:var(--mu)}.v p{margin:.3rem 0 0}\n"
    "code{font:13px ui-monospace,monospace;background:var(--bg);border:1px solid var(--ln);"
    "border-radius:4px;padding:.1rem .4rem}\n";

void pg_page_put(pg_page *p, const char *html)
{
    if (p->st == PG_OK)
        p->st = pg_file_write(p->file, html, strlen(html), &p->err);
}

void pg_page_putf(pg_page *p, const char *fmt, ...)
{
    char s[1024];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(s, sizeof s, fmt, ap);
    va_end(ap);
    pg_page_put(p, s);
}

static const char *entity(char c)
{
    switch (c) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '"': return "&quot;";
    default: return "&#39;";
    }
}

void pg_page_text(pg_page *p, const char *text, size_t n)
{
    char shown[NAME_BYTES];
    pg_printable(shown, sizeof shown, text, n == PG_PAGE_ALL ? strlen(text) : n);
    for (const char *s = shown; *s; s++) {
        const size_t plain = strcspn(s, "&<>\"'");
        if (plain && p->st == PG_OK)
            p->st = pg_file_write(p->file, s, plain, &p->err);
        s += plain;
        if (!*s)
            return;
        pg_page_put(p, entity(*s));
    }
}

void pg_page_begin(pg_page *p, const char *title, const char *by, const char *style)
{
    pg_page_put(p, "<!doctype html>\n<html lang=en>\n<meta charset=utf-8>\n"
                   "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; "
                   "style-src 'unsafe-inline'\">\n"
                   "<meta name=viewport content=\"width=device-width\">\n");
    pg_page_putf(p, "<meta name=generator content=\"%s %s\">\n<title>", by, pg_version());
    pg_page_text(p, title, PG_PAGE_ALL);
    pg_page_put(p, "</title>\n<style>\n");
    pg_page_put(p, base_style);
    pg_page_put(p, style ? style : "");
    pg_page_put(p, "</style>\n<h1>");
    pg_page_text(p, title, PG_PAGE_ALL);
    pg_page_put(p, "</h1>\n");
}

void pg_page_figure(pg_page *p, const char *value, const char *what, int bad)
{
    pg_page_put(p, bad ? "<div><b class=w>" : "<div><b>");
    pg_page_text(p, value, PG_PAGE_ALL);
    pg_page_put(p, "</b><span>");
    pg_page_text(p, what, PG_PAGE_ALL);
    pg_page_put(p, "</span></div>");
}
