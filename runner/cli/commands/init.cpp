#include <filesystem>
#include <memory>

#include <nlohmann/json.hpp>

#include "runner/cli/command.h"
#include "runner/disk/installation.h"
#include "runner/disk/new_file.h"

namespace runner {
namespace {

constexpr const char* kDefaultFile = "recipe.yaml";

std::string starting_recipe(const std::string& schema_file, const std::string& file) {
  return "# yaml-language-server: $schema=" + schema_file +
         "\n#\n"
         "# Run it:       retort run " +
         file +
         " data.root=FOLDER     (FOLDER holds one folder of images per class)\n"
         "# Look at it:   retort config show " +
         file +
         " data.root=FOLDER --resolve\n"
         "schema: 1\n"
         "name: classify_${model.name}\n"
         "seed: 42\n"
         "device: cpu                       # cpu, cuda or cuda:K\n"
         "defaults:                         # each line picks a file of recipes/; model=clip_vit_b32 picks another\n"
         "  - data: image_folder\n"
         "  - model: tiny\n"
         "  - memory: as_written\n"
         "  - train: from_scratch\n"
         "  - _self_\n"
         "aliases:                          # short names on the command line: epochs=3\n"
         "  epochs: train.epochs\n"
         "  lr: train.optimizer.learning_rate\n"
         "  batch_size: train.batch_size\n"
         "\n"
         "train:\n"
         "  epochs: 30\n"
         "  batch_size: 32                  # the samples of one optimizer step\n"
         "evaluate:\n"
         "  kind: evaluate.classification\n"
         "\n"
         "# What could follow; `retort explain KEY` says more:\n"
         "# data: {image_size: 64, split: {train: 0.8, validation: 0.1, test: 0.1}}\n"
         "# train: {patience: 5, optimizer: {learning_rate: 5e-4}, schedule: {kind: cosine}}\n"
         "# memory: {budget: 8GiB, micro_batch: 8, precision: bf16}\n"
         "# run: {dir: \"outputs/${name}_${now:%Y-%m-%d_%H-%M}\"}\n"
         "# sweep: {params: {seed: [0, 1, 2]}}\n";
}

ExitCode init(const std::string& file, Console& console) {
  const std::string text = starting_recipe((share_folder() / "schemas" / "editor" / "recipe.json").string(), file);
  const bool was_there = std::filesystem::exists(std::filesystem::symlink_status(file));
  bool is_made = false;
  try {
    NewFile out(file);
    is_made = true;
    out.append(text);
    out.sync();
  } catch (const WriteError& error) {
    if (is_made) disk().remove(file);
    Diagnostic diagnostic = error.diagnostic();
    if (was_there) diagnostic.help = "choose another name: nothing is overwritten";
    else if (diagnostic.code == ErrorCode::kCannotCreate) diagnostic.help = "choose another place";
    return report(console, {diagnostic});
  }
  if (console.json) print_result(console, "init/1", {{"file", file}});
  else console.out << file << '\n';
  if (!console.is_quiet()) console.err << "next: retort validate " << file << " data.root=FOLDER\n";
  return ExitCode::kDone;
}

Invocation declare_init() {
  const auto file = std::make_shared<std::string>();
  Invocation verb;
  verb.add({.name = "file",
            .value = file.get(),
            .summary = "The file to write; it must not exist",
            .assumed = kDefaultFile});
  verb.run = [file](Console& console) { return init(file->empty() ? kDefaultFile : *file, console); };
  return verb;
}

}  // namespace

const Command kInitCommand = {"init", "Writes a recipe to start from.", "retort init flowers.yaml", declare_init};

}  // namespace runner
