#include <algorithm>
#include <cctype>
#include <filesystem>
#include <memory>
#include <string_view>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/command.h"
#include "runner/shared/disk/installation.h"
#include "runner/shared/disk/new_file.h"
#include "runner/shared/text/printable.h"

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
         "device: auto                      # auto, cpu, cuda or cuda:K\n"
         "defaults:                         # each line selects a file in recipes/; "
         "model=clip_vit_b32 selects another\n"
         "  - data: image_folder\n"
         "  - model: tiny\n"
         "  - memory: auto\n"
         "  - train: from_scratch\n"
         "  - _self_\n"
         "\n"
         "train:\n"
         "  epochs: 30\n"
         "  batch_size: 32                  # the samples of one optimizer step\n"
         "evaluate:\n"
         "  kind: evaluate.classification\n"
         "\n"
         "# Further options; `retort explain KEY` describes them:\n"
         "# data: {image_size: 48, split: {train: 0.8, validation: 0.1, test: 0.1}}\n"
         "# memory: {budget: 8GiB, precision: bf16}\n"
         "# run: {dir: \"outputs/${name}_${now:%Y-%m-%d_%H-%M}\"}\n"
         "# sweep: {params: {seed: [0, 1, 2]}}\n";
}

/// Returns `file`, with .yaml appended unless it ends in .yaml or .yml.
std::string recipe_file(const std::string& file) {
  return file.ends_with(".yaml") || file.ends_with(".yml") ? file : file + ".yaml";
}

/// True if `file` can be written on a command line and in a comment without quotes.
bool is_plain(const std::string& file) {
  constexpr std::string_view kPlain = "._/+@,:~-";
  return std::string_view("-+~").find(file.front()) == std::string_view::npos &&
         !file.ends_with('/') && std::ranges::all_of(file, [&](unsigned char letter) {
           return letter >= 0x80 || std::isalnum(letter) ||
                  kPlain.find(static_cast<char>(letter)) != kPlain.npos;
         });
}

ExitCode init(const std::string& named, Console& console) {
  if (!is_plain(named))
    return report(console, {{ErrorCode::kUsage,
                             {},
                             "",
                             "'" + printable(named) + "' cannot be the name of a recipe",
                             "use letters, digits, '.', '_' and '-': other characters have a "
                             "special meaning to a shell or to retort"}});
  const std::string file = recipe_file(named);
  const std::string text =
      starting_recipe((share_folder() / "schemas" / "editor" / "recipe.json").string(), file);
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
    if (was_there) diagnostic.help = "choose another name: existing files are not overwritten";
    else if (diagnostic.code == ErrorCode::kCannotCreate)
      diagnostic.help = "choose another location";
    return report(console, {diagnostic});
  }
  if (console.json) print_result(console, "init/1", {{"file", file}});
  else console.out << file << '\n';
  if (!console.is_quiet())
    console.err << "next: retort validate " << printable(file) << " data.root=FOLDER\n";
  return ExitCode::kDone;
}

Invocation declare_init() {
  const auto file = std::make_shared<std::string>();
  Invocation verb;
  verb.add(
      {.name = "file",
       .value = file.get(),
       .summary =
           "The file to write, which must not exist yet; .yaml is added if it has no extension",
       .is_written = true,
       .assumed = kDefaultFile});
  verb.run = [file](Console& console) {
    return init(file->empty() ? kDefaultFile : *file, console);
  };
  return verb;
}

}  // namespace

const Command kInitCommand = {"init", "Writes a starter recipe.", "retort init flowers.yaml",
                              declare_init};

}  // namespace runner
