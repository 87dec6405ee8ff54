#include "runner/parent/run/class_names.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "runner/shared/text/suggest.h"

namespace runner {
namespace {

namespace fs = std::filesystem;

/// A class that an option names.
struct NamedClass {
  std::string name;
  Location where;
  std::string option;
};

std::vector<NamedClass> classes_named_by(const Node& node) {
  std::vector<NamedClass> result;
  const Value* const weights = node.options.find("class_weights");
  if (weights && weights->map())
    for (const Entry& entry : *weights->map())
      result.push_back({entry.key, entry.key_where, "class_weights"});
  const Value* const classes = node.kind == "train.binary" ? node.options.find("classes") : nullptr;
  if (classes && classes->list()) {
    for (const Value& item : *classes->list())
      if (item.text()) result.push_back({*item.text(), item.where, "classes"});
  }
  return result;
}

/// The node whose images are trained on, perhaps by their features; null: it is none of folders.
const Node* images_of(const Graph& graph, const Node& training) {
  const Node* node = &training;
  do {
    const auto edge = std::ranges::find(node->inputs, "train", &Edge::input);
    if (edge == node->inputs.end()) return nullptr;
    node = &graph.nodes[edge->from];
  } while (node->kind == "data.features");
  return node->kind == "data.image_folder" ? node : nullptr;
}

/// Names of folders in `root` and in those in it, which may be its parts.
std::vector<std::string> folders_in(const fs::path& root) {
  constexpr int kMost = 100'000;
  std::set<std::string> names;
  int left = kMost;
  const auto list = [&](const auto& self, const fs::path& folder, int depth) -> void {
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end && left > 0;
         at.increment(error), --left) {
      std::error_code unreadable;
      if (!at->is_directory(unreadable)) continue;
      names.insert(at->path().filename().string());
      if (depth > 0) self(self, at->path(), depth - 1);
    }
  };
  list(list, root, 1);
  if (left == 0) names.clear();  // not all are known
  return {names.begin(), names.end()};
}

}  // namespace

Diagnostics unknown_classes(const Graph& graph) {
  Diagnostics errors;
  std::set<std::string> seen;  // nodes of one foreach share their options
  for (const Node& node : graph.nodes) {
    const std::vector<NamedClass> named = classes_named_by(node);
    const Node* const images = named.empty() ? nullptr : images_of(graph, node);
    const Value* const root = images ? images->options.find("root") : nullptr;
    if (!root || !root->text()) continue;
    const std::vector<std::string> folders =
        folders_in(fs::path(graph.working_folder) / *root->text());
    if (folders.empty()) continue;
    for (const NamedClass& one : named) {
      if (std::ranges::binary_search(folders, one.name)) continue;
      const std::string pointer = pointer_to(node.pointer, one.option);
      if (!seen.insert(pointer + '\n' + one.name).second) continue;
      errors.push_back(
          {ErrorCode::kOptionConflict, one.where, pointer,
           one.option + " names a class that the training data lacks: '" + one.name + "'",
           did_you_mean(one.name, folders)});
    }
  }
  return errors;
}

}  // namespace runner
