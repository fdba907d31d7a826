/* What the files of the pipeline's driver share. */
#ifndef SWX_H
#define SWX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include <rte_common.h>
#include <rte_swx_pipeline.h>

enum { COUNTERS_MAX = 32, PORTS_MAX = 8 };

/* Register arrays whose names begin with "count_": what follows is the counter's name. */
struct counters {
    char names[COUNTERS_MAX][RTE_SWX_NAME_SIZE];
    size_t n;
};

/* Reads a specification into the pipeline; ends the program with the line that is wrong. */
void read_specification(struct rte_swx_pipeline *pipeline, const char *path, struct counters *counters);

/* Writes "swx: ..." to stderr and ends the program. */
__attribute__((noreturn, format(printf, 1, 2))) void fail(const char *format, ...);

#endif
