#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace runner {

/// What was typed after `retort`, taken apart. Which fields a verb fills in is said in command_line.cpp.
struct Arguments {
  std::string verb;
  std::string recipe;                    ///< a recipe's name or file
  std::vector<std::string> overrides;    ///< key=value, as typed
  std::string config_path;               ///< the folder to look for recipes in instead of the working directory
  std::vector<std::string> config_dirs;  ///< further folders with recipes, or with recipes/ and experiments/
  bool strict = false;                   ///< what composition warns of is an error

  bool json = false;
  bool verbose = false;
  bool quiet = false;

  std::string run_folder;          ///< resume, evaluate, predict, analyze: the folder of a run
  bool force = false;              ///< resume: take changes that make the result neither recipe's
  bool smoke = false;              ///< run: two steps of every stage
  bool reuse = false;              ///< run, plan: take the results of every node that an earlier run has finished
  bool no_reuse = false;           ///< run, plan, resume, evaluate: compute also what is otherwise reused
  std::string show;                ///< run: "job", Hydra's --cfg job: show the recipe instead
  bool multirun = false;           ///< run: a sweep
  bool dry_run = false;            ///< sweep: list the runs, start none
  std::string only;                ///< run, plan, certify: one node and what it needs
  std::string budget;              ///< plan: a size to hold the recipe against, "8GiB"
  std::string gpu;                 ///< plan: a GPU that is not here, "NVIDIA L4"
  std::string svg;                 ///< plan: the file to draw the live bytes to
  bool detailed_exitcode = false;  ///< plan: 2 where something would run
  std::string format;              ///< graph: text, dot, mermaid or json
  bool origin = false;             ///< config show: each value with the file or override it came from
  std::string explain;             ///< config show: the key whose writes are listed
  std::string package;             ///< config show: only what is below this key
  std::string info;                ///< config show: how it was composed: defaults, defaults-tree or searchpath
  bool resolve = false;            ///< config show: defaults and interpolations filled in
  bool editor = false;             ///< schema: what a file may say as written, for editors
  std::int64_t steps = 3;          ///< doctor determinism: how many are compared
  std::string subject;  ///< config: "show"; data: "make" or "fetch"; doctor: "determinism"; schema, explain: a kind;
                        ///< init: the file to write
  std::string what;     ///< data make: "image_folder", …; data fetch: "flowers102", "hf:ORG/NAME@REVISION"
  std::string out;      ///< data make, export, analyze, compare: the folder to write; data fetch: that to fetch into;
                        ///< predict: the file
  std::int64_t classes = 8, per_class = 100, size = 64, seed = 0;  ///< data make
  std::vector<std::string> from_files;  ///< data fetch: files of a data set that are here already
  std::vector<std::string> files;       ///< data fetch: which of a model's files
  std::string url;                      ///< data fetch: another server's address

  std::string checkpoint;          ///< evaluate, predict: best, latest or a checkpoint's folder; empty: the one kept
  std::vector<std::string> paths;  ///< predict: images and folders of images; also device=… and threads=…;
                                   ///< compare: folders of runs
  std::string node;                ///< predict, export: the training, where the run has several
  std::int64_t top = 5, batch_size = 64;  ///< predict: classes an image, images at once
  bool skip_corrupt = false;              ///< predict: continue after an image that cannot be read
  bool merged = false, adapter = false;   ///< export: the whole network, or its adapters alone
  std::string names;                      ///< export --adapter: whose names it is to have; empty: the base's library's
  bool head_inside = false;               ///< export --adapter: the head as one of modules_to_save
};

}  // namespace runner
