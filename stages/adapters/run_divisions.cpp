#include "stages/adapters/run_divisions.h"

#include <algorithm>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "runner/shared/error/stage_error.h"
#include "runner/shared/stage/run_layout.h"
#include "stages/artifact/division.h"

namespace stages {
namespace {

namespace fs = std::filesystem;

/// Returns the divisions recorded by the data stages below `nodes`.
std::vector<Division> divisions_in(const fs::path& nodes) {
  std::vector<Division> found;
  std::error_code error;
  for (fs::directory_iterator node(nodes, error), end; !error && node != end;
       node.increment(error)) {
    std::error_code missing;
    const fs::path file = runner::NodeLayout(node->path()).division();
    if (fs::exists(file, missing)) found.push_back(read_division(file));
  }
  return found;
}

std::set<std::string> images_in(const Division& division, const char* part) {
  std::set<std::string> names;
  const auto files = division.parts.find(part);
  if (files == division.parts.end()) return names;
  for (const Division::File& file : files->second) names.insert(file.name);
  return names;
}

}  // namespace

void check_divided_alike(const fs::path& own, const fs::path& earlier) {
  const std::vector<Division> then = divisions_in(earlier);
  for (const Division& ours : divisions_in(own)) {
    for (const Division& theirs : then) {
      if (ours.root != theirs.root) continue;
      const std::set<std::string> trained = images_in(theirs, "train");
      for (const char* const part : {"validation", "test"}) {
        const std::set<std::string> held_out = images_in(ours, part);
        const auto count = std::ranges::count_if(
            held_out, [&](const std::string& name) { return trained.contains(name); });
        if (count == 0) continue;
        throw runner::StageError(runner::ErrorCode::kOptionConflict,
                                 "it was trained on " + std::to_string(count) + " of the " +
                                     std::to_string(held_out.size()) + " images of this run's " +
                                     part +
                                     " part, because it divided the images differently: by " +
                                     theirs.drawn_by + " there, by " + ours.drawn_by + " here")
            .with_help(
                "set the data options, such as data.split and data.split_seed, to the values used "
                "in that run");
      }
    }
  }
}

}  // namespace stages
