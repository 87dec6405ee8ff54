#include "runner/parent/run/image_folders.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "runner/parent/config/secret.h"
#include "runner/parent/schema/schema_node.h"
#include "runner/shared/stage/image_folder.h"
#include "runner/shared/text/suggest.h"

namespace runner {
namespace {

constexpr std::int64_t kMostEntries = 200'000;

const std::string* text_option(const Value& stage, std::string_view key) {
  const Value* value = stage.find(key);
  return value ? value->reveal() : nullptr;
}

}  // namespace

ImageFolders look_at_image_folders(const Value& recipe,
                                   const std::filesystem::path& working_folder) {
  const SecretTexts secrets(recipe);
  ImageFolders result;
  for (const auto& [key, where, stage, type] : *recipe.map()) {
    const std::string *kind = text_option(stage, "kind"), *root = text_option(stage, "root");
    if (!kind || *kind != "data.image_folder" || !root) continue;
    if (root->find("${item.") != root->npos)
      continue;  // in a foreach: each item has its own folder
    const auto refuse = [&, &name = key](Diagnostic error, const Value& root_option) {
      error.pointer = pointer_to(pointer_to("", name), "root");
      error.where = root_option.where;
      result.errors.push_back(secrets.hidden_in(std::move(error)));
    };
    const std::filesystem::path folder = working_folder / *root;
    std::error_code unreadable;
    if (!std::filesystem::is_directory(folder, unreadable)) continue;
    const Leftovers leftovers = find_leftovers(folder, kMostEntries);
    const std::string* on_corrupt = text_option(stage, "on_corrupt");
    const std::string text = leftovers.counts.text();
    if (leftovers.counts.count_other_images() > 0 && on_corrupt && *on_corrupt == "stop") {
      refuse(other_images_error(*root, leftovers.counts), *stage.find("root"));
    } else if (!text.empty()) {
      result.lines.push_back(
          key + ": " + text +
          (leftovers.complete
               ? ""
               : " (only the first " + std::to_string(kMostEntries) + " files counted)"));
    }
  }
  return result;
}

namespace {

namespace fs = std::filesystem;

/// A class named by an option.
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

/// Returns the data node with the images that `training` uses, directly or as features; null if
/// they are not in folders.
const Node* images_of(const Graph& graph, const Node& training) {
  const Node* node = &training;
  do {
    const auto edge = std::ranges::find(node->inputs, "train", &Edge::input);
    if (edge == node->inputs.end()) return nullptr;
    node = &graph.nodes[edge->from];
  } while (node->kind == "data.features");
  return node->kind == "data.image_folder" ? node : nullptr;
}

/// Returns the names of the folders in `root` and of their subfolders, since the folders in `root`
/// may be splits.
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
  if (left == 0) names.clear();  // the list would be incomplete
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
        folders_in(fs::path(graph.working_folder) / *root->reveal());
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
