/* SPDX-License-Identifier: BSD-3-Clause */
/* Steps over time as SVG: a lane for each program of each rank, a box for each step, grey where it waits. */
#include <stdio.h>
#include <string.h>

#include "plan.h"
#include "plans/plan_print.h"

enum { WIDTH = 1280, LEFT = 150, RIGHT = 20, TOP = 62, LANE = 16, GAP = 8, BOTTOM = 34 };

struct plot {
	FILE *out;
	const struct plan *plan;
	const struct sim_result *result;
	int ranks, lanes; /* lanes of one rank */
	double scale; /* pixels per ns */
};

static const struct kind {
	const char *name, *color;
} kinds[] = { { "fold", "#d9822b" },       { "send", "#3572b0" },         { "receive", "#4c9a52" },
	      { "local copy", "#8c6bb1" }, { "signal, wait", "#444444" }, { "waiting", "#dddddd" } };
enum { FOLD, SEND, RECEIVE, COPY, TOKEN, WAITING, NUM_KINDS };

static int kind_of(const struct plan_action *a)
{
	if (a->op != PLAN_MOVE)
		return TOKEN;
	if (a->flags & PLAN_REDUCE)
		return FOLD;
	return a->from != PLAN_NONE ? RECEIVE : a->to != PLAN_NONE ? SEND : COPY;
}

static double lane_y(const struct plot *plot, int rank, int lane)
{
	return TOP + rank * (plot->lanes * LANE + GAP) + lane * LANE;
}

static void print_box(const struct plot *plot, double start, double end, double y, double height,
		      const char *color)
{
	double width = (end - start) * plot->scale;
	fprintf(plot->out, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" fill=\"%s\"",
		LEFT + start * plot->scale, y, width > 0.4 ? width : 0.4, height, color);
}

/* The title appears when the pointer rests on the box. */
static void print_event(const struct plot *plot, const struct sim_event *e, double *lane_end)
{
	char text[256];
	int lane = e->channel * plot->plan->nprograms + e->program;
	double y = lane_y(plot, e->rank, lane), *end = &lane_end[e->rank * plot->lanes + lane];
	if ((e->start_ns - *end) * plot->scale > 0.3) {
		print_box(plot, *end, e->start_ns, y + LANE / 2.0 - 2, 3, kinds[WAITING].color);
		fprintf(plot->out, "/>\n");
	}
	*end = e->end_ns;
	plan_print_action(&e->action, text, sizeof(text));
	for (char *p = text; *p; p++)
		*p = *p == '>' || *p == '<' || *p == '&' ? '=' : *p;
	print_box(plot, e->start_ns, e->end_ns, y + 1, LANE - 4, kinds[kind_of(&e->action)].color);
	fprintf(plot->out, "><title>%.2f to %.2f us: %s</title></rect>\n", e->start_ns / 1e3, e->end_ns / 1e3,
		text);
}

static void print_text(const struct plot *plot, double x, double y, const char *anchor, const char *text)
{
	fprintf(plot->out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
	for (const char *p = text; *p; p++)
		fprintf(plot->out, *p == '<' ? "&lt;" : *p == '&' ? "&amp;" : "%c", *p);
	fprintf(plot->out, "</text>\n");
}

static void print_labels(const struct plot *plot)
{
	static const char *const engines[] = { "SM", "CE", "NET" };
	char text[64];
	for (int rank = 0; rank < plot->ranks; rank++) {
		for (int lane = 0; lane < plot->lanes; lane++) {
			int program = lane % plot->plan->nprograms;
			snprintf(text, sizeof(text), "rank %d, %s %d", rank,
				 engines[plot->plan->programs[program].engine], lane);
			print_text(plot, LEFT - 8, lane_y(plot, rank, lane) + LANE - 5, "end", text);
		}
	}
}

/* A round distance between ticks, so that there are about ten. */
static double tick_ns(double total)
{
	double tick = 1;
	while (tick * 10 < total)
		tick *= 10;
	tick /= 10;
	return total / tick > 50 ? tick * 10 : total / tick > 20 ? tick * 5 : tick * 2;
}

static void print_axis(const struct plot *plot, double bottom)
{
	char text[32];
	double total = plot->result->ns, tick = tick_ns(total);
	int milli = total >= 1e7;
	for (double t = 0; t <= total; t += tick) {
		double x = LEFT + t * plot->scale;
		fprintf(plot->out,
			"<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#eeeeee\"/>\n", x,
			TOP - 4, x, bottom);
		snprintf(text, sizeof(text), "%g %s", t / (milli ? 1e6 : 1e3), milli ? "ms" : "us");
		print_text(plot, x, bottom + 16, "middle", text);
	}
}

static void print_legend(const struct plot *plot, const char *title)
{
	print_text(plot, LEFT, 20, "start", title);
	for (int i = 0; i < NUM_KINDS; i++) {
		int x = LEFT + i * 130;
		fprintf(plot->out, "<rect x=\"%d\" y=\"34\" width=\"12\" height=\"12\" fill=\"%s\"/>\n", x,
			kinds[i].color);
		print_text(plot, x + 18, 44, "start", kinds[i].name);
	}
}

int plan_plot(const char *file, const struct plan *plan, const struct sim_result *result, int ranks,
	      const char *title)
{
	enum { MOST_LANES = 4096 };
	static double lane_end[MOST_LANES];
	struct plot plot = { .plan = plan, .result = result, .ranks = ranks };
	plot.lanes = plan->nprograms * plan->channels;
	plot.ranks = ranks * plot.lanes > MOST_LANES ? MOST_LANES / plot.lanes : ranks;
	plot.scale = (WIDTH - LEFT - RIGHT) / (result->ns > 0 ? result->ns : 1);
	plot.out = fopen(file, "w");
	if (!plot.out)
		return CORALE_ESYSTEM;
	double bottom = lane_y(&plot, plot.ranks, 0);
	memset(lane_end, 0, sizeof(lane_end));
	fprintf(plot.out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" "
		"font-family=\"sans-serif\" "
		"font-size=\"11\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
		WIDTH, bottom + BOTTOM);
	print_legend(&plot, title);
	print_axis(&plot, bottom);
	print_labels(&plot);
	for (long i = 0; i < result->nevents; i++)
		if (result->events[i].rank < plot.ranks)
			print_event(&plot, &result->events[i], lane_end);
	fprintf(plot.out, "</svg>\n");
	int failed = ferror(plot.out);
	return fclose(plot.out) || failed ? CORALE_ESYSTEM : 0;
}
