#include "runner/parent/run/image_folders.h"

#include <cstdint>
#include <filesystem>
#include <utility>

#include "runner/parent/config/secret.h"
#include "runner/parent/schema/schema_node.h"
#include "runner/shared/stage/image_folder.h"

namespace runner {
namespace {

constexpr std::int64_t kMostEntries = 200'000;

const std::string* text_option(const Value& stage, std::string_view key) {
  const Value* value = stage.find(key);
  return value ? value->text() : nullptr;
}

}  // namespace

ImageFolders look_at_image_folders(const Value& recipe,
                                   const std::filesystem::path& working_folder) {
  const SecretTexts secrets(recipe);
  ImageFolders result;
  for (const auto& [key, where, stage, type] : *recipe.map()) {
    const std::string *kind = text_option(stage, "kind"), *root = text_option(stage, "root");
    if (!kind || *kind != "data.image_folder" || !root) continue;
    if (root->find("${item.") != root->npos) continue;  // of a foreach: each item has its own
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
               : " (of the first " + std::to_string(kMostEntries) + " files alone)"));
    }
  }
  return result;
}

}  // namespace runner
