/*
 * Reads a specification in the language of DPDK's SWX pipeline: struct, header, metadata, regarray, action, table, apply. Debian's library
 * has calls that take the parts, and none that takes the text.
 */
#include "swx.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS_MAX = 16, ITEMS_MAX = 4096 };

static struct {
    FILE *file;
    const char *path;
    int line;
    char text[512];
    char *tokens[TOKENS_MAX];
    int n;
} in;

static void wrong(const char *what) {
    fail("%s:%d: %s", in.path, in.line, what);
}

static void hold(int status, const char *what) {
    if (status) fail("%s:%d: %s: %s", in.path, in.line, what, strerror(-status));
}

/* The words of the next line that has any; false at the end. Comments begin with ; or //. */
static bool next_line(void) {
    while (fgets(in.text, sizeof in.text, in.file)) {
        in.line++;
        if (!strchr(in.text, '\n') && !feof(in.file)) wrong("the line is too long");
        char *comment = strstr(in.text, "//");
        if (comment) *comment = 0;
        in.text[strcspn(in.text, ";")] = 0;
        in.n = 0;
        for (char *word = strtok(in.text, " \t\r\n"); word; word = strtok(NULL, " \t\r\n")) {
            if (in.n == TOKENS_MAX) wrong("too many words");
            in.tokens[in.n++] = word;
        }
        if (in.n) return true;
    }
    return false;
}

static bool is(int i, const char *word) {
    return i < in.n && !strcmp(in.tokens[i], word);
}

/* The next line of a block; false at its end. */
static bool next_in_block(void) {
    if (!next_line()) wrong("the block has no end");
    return !(in.n == 1 && is(0, "}"));
}

static char *keep(const char *word) {
    char *copy = strdup(word);
    if (!copy) wrong("no memory");
    return copy;
}

static unsigned long number(const char *word) {
    char *end;
    errno = 0;
    unsigned long value = strtoul(word, &end, 0);
    if (errno || *end || end == word) wrong("a number is expected");
    return value;
}

static void read_struct(struct rte_swx_pipeline *pipeline) {
    static struct rte_swx_field_params fields[256];
    uint32_t n = 0;
    if (in.n != 3 || !is(2, "{")) wrong("struct NAME {");
    char *name = keep(in.tokens[1]);
    while (next_in_block()) {
        size_t len = strlen(in.tokens[0]);
        if (in.n != 2 || strncmp(in.tokens[0], "bit<", 4) || in.tokens[0][len - 1] != '>') wrong("bit<N> NAME");
        if (n == RTE_DIM(fields)) wrong("too many fields");
        in.tokens[0][len - 1] = 0;
        fields[n++] = (struct rte_swx_field_params){.name = keep(in.tokens[1]), .n_bits = (uint32_t)number(in.tokens[0] + 4)};
    }
    hold(rte_swx_pipeline_struct_type_register(pipeline, name, fields, n, 0), name);
}

/* Instructions of a block, as single lines. */
static const char **read_instructions(uint32_t *n) {
    static const char *lines[ITEMS_MAX];
    *n = 0;
    while (next_in_block()) {
        char text[RTE_SWX_INSTRUCTION_SIZE] = "";
        for (int i = 0; i < in.n; i++) {
            if (strlen(text) + strlen(in.tokens[i]) + 2 > sizeof text) wrong("the instruction is too long");
            if (i) strcat(text, " ");
            strcat(text, in.tokens[i]);
        }
        if (*n == ITEMS_MAX) wrong("too many instructions");
        lines[(*n)++] = keep(text);
    }
    return lines;
}

static void read_action(struct rte_swx_pipeline *pipeline) {
    bool plain = in.n == 5 && is(2, "args") && is(3, "none") && is(4, "{");
    if (!plain && !(in.n == 6 && is(2, "args") && is(3, "instanceof") && is(5, "{"))) wrong("action NAME args none|instanceof STRUCT {");
    char *name = keep(in.tokens[1]), *args = plain ? NULL : keep(in.tokens[4]);
    uint32_t n;
    const char **lines = read_instructions(&n);
    hold(rte_swx_pipeline_action_config(pipeline, name, args, lines, n), name);
}

static void read_table(struct rte_swx_pipeline *pipeline) {
    struct rte_swx_match_field_params fields[8];
    const char *actions[8];
    struct rte_swx_pipeline_table_params params = {.fields = fields, .action_names = actions};
    uint32_t size = 0;
    if (in.n != 3 || !is(2, "{")) wrong("table NAME {");
    char *name = keep(in.tokens[1]);
    while (next_in_block()) {
        if (in.n == 2 && is(0, "key") && is(1, "{")) {
            while (next_in_block()) {
                if (in.n != 2 || !is(1, "exact") || params.n_fields == RTE_DIM(fields)) wrong("FIELD exact");
                fields[params.n_fields++] =
                    (struct rte_swx_match_field_params){.name = keep(in.tokens[0]), .match_type = RTE_SWX_TABLE_MATCH_EXACT};
            }
        } else if (in.n == 2 && is(0, "actions") && is(1, "{")) {
            while (next_in_block()) {
                if (in.n != 1 || params.n_actions == RTE_DIM(actions)) wrong("an action's name");
                actions[params.n_actions++] = keep(in.tokens[0]);
            }
        } else if (in.n == 4 && is(0, "default_action") && is(2, "args") && is(3, "none")) {
            params.default_action_name = keep(in.tokens[1]);
        } else if (in.n == 2 && is(0, "size")) {
            size = (uint32_t)number(in.tokens[1]);
        } else {
            wrong("a table has key, actions, default_action and size");
        }
    }
    hold(rte_swx_pipeline_table_config(pipeline, name, &params, NULL, NULL, size), name);
}

static void read_registers(struct rte_swx_pipeline *pipeline, struct counters *counters) {
    static const char prefix[] = "count_";
    if (in.n != 6 || !is(2, "size") || !is(4, "initval")) wrong("regarray NAME size N initval N");
    const char *name = in.tokens[1];
    hold(rte_swx_pipeline_regarray_config(pipeline, name, (uint32_t)number(in.tokens[3]), number(in.tokens[5])), name);
    if (strncmp(name, prefix, sizeof prefix - 1)) return;
    if (counters->n == COUNTERS_MAX) wrong("too many counters");
    snprintf(counters->names[counters->n++], RTE_SWX_NAME_SIZE, "%s", name + sizeof prefix - 1);
}

void read_specification(struct rte_swx_pipeline *pipeline, const char *path, struct counters *counters) {
    in.path = path;
    in.file = fopen(path, "r");
    if (!in.file) fail("%s: %s", path, strerror(errno));
    while (next_line()) {
        if (is(0, "struct")) {
            read_struct(pipeline);
        } else if (in.n == 4 && is(0, "header") && is(2, "instanceof")) {
            hold(rte_swx_pipeline_packet_header_register(pipeline, in.tokens[1], in.tokens[3]), "header");
        } else if (in.n == 3 && is(0, "metadata") && is(1, "instanceof")) {
            hold(rte_swx_pipeline_packet_metadata_register(pipeline, in.tokens[2]), "metadata");
        } else if (is(0, "regarray")) {
            read_registers(pipeline, counters);
        } else if (is(0, "action")) {
            read_action(pipeline);
        } else if (is(0, "table")) {
            read_table(pipeline);
        } else if (in.n == 2 && is(0, "apply") && is(1, "{")) {
            uint32_t n;
            const char **lines = read_instructions(&n);
            hold(rte_swx_pipeline_instructions_config(pipeline, lines, n), "apply");
        } else {
            wrong("unknown statement");
        }
    }
    fclose(in.file);
}
