/* pgfit_model.c - what is told of a model, and of the layers there are. */
#include "pgfit.h"

pg_status fit_print_summary(const char *model, pg_err *err)
{
    char *text = NULL;
    const pg_status st = pg_model_summary(&text, model, err);
    if (st == PG_OK)
        cli_puts(stdout, text);
    pg_text_free(text);
    return st;
}

/* Names in columns, filled to the width of a page. */
static void print_classes(int wanted)
{
    size_t column = 0;
    const char *name;
    int trained;
    for (size_t i = 0; (name = pg_layer_class(i, &trained)); i++) {
        if (trained != wanted)
            continue;
        if (column + 2 + cli_width(name) > 98) {
            putchar('\n');
            column = 0;
        }
        printf("  %s", name);
        column += 2 + cli_width(name);
    }
    putchar('\n');
}

static void print_json_classes(void)
{
    const char *name;
    int trained;
    fputs("{\"event\": \"layers\", \"layers\": {", stdout);
    for (size_t i = 0; (name = pg_layer_class(i, &trained)); i++)
        printf("%s\"%s\": %s", i ? ", " : "", name, trained ? "true" : "false");
    puts("}}");
}

void fit_print_layers(void)
{
    size_t n[2] = {0};
    int trained;
    if (cli.json) {
        print_json_classes();
        return;
    }
    for (size_t i = 0; pg_layer_class(i, &trained); i++)
        n[trained]++;
    printf("%zu layer classes can be trained:\n", n[1]);
    print_classes(1);
    printf("%zu are known to the file tools, but cannot be trained:\n", n[0]);
    print_classes(0);
}
