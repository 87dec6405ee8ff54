#include "stages/data/image_groups.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "runner/shared/error/stage_error.h"
#include "runner/shared/text/join.h"
#include "runner/shared/text/printable.h"

namespace stages {
namespace {

constexpr std::size_t kNamedGroups = 10;

}  // namespace

std::vector<std::vector<ImageGroup>> groups_by_class(const std::vector<ImageFile>& files) {
  std::vector<ImageGroup> groups;
  std::unordered_map<std::string_view, std::size_t> of_patient;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string& patient = files[i].patient;
    const auto [found, is_new] = patient.empty() ? std::pair(of_patient.end(), true)
                                                 : of_patient.emplace(patient, groups.size());
    ImageGroup& group = is_new ? groups.emplace_back() : groups[found->second];
    group.label = std::max(group.label, files[i].label);
    group.name = patient.empty() ? files[i].name : patient;
    group.files.push_back(i);
  }
  std::vector<std::vector<ImageGroup>> classes;
  for (ImageGroup& group : groups) {
    const auto label = static_cast<std::size_t>(group.label);
    if (label >= classes.size()) classes.resize(label + 1);
    classes[label].push_back(std::move(group));
  }
  return classes;
}

runner::Diagnostics set_groups(ImageList& list, const Expression& pattern) {
  constexpr const char* kOption = "/group_pattern";
  std::vector<std::string> without;
  std::size_t images = 0;
  try {
    for (std::vector<ImageFile>& part : list.parts) {
      images += part.size();
      for (ImageFile& file : part) {
        const std::string name = std::filesystem::path(file.name).stem().string();
        file.patient = pattern.capture_or_first(name, "group").value_or("");
        file.names_patient = !file.patient.empty();
        if (!file.names_patient) without.push_back(runner::printable(file.name));
      }
    }
  } catch (const runner::StageError& too_long) {
    return {{too_long.code, {}, kOption, too_long.what(), too_long.help}};
  }
  if (without.empty()) return {};
  return {
      {runner::ErrorCode::kBadPattern,
       {},
       kOption,
       "the pattern finds no group in the names of " + std::to_string(without.size()) + " of " +
           std::to_string(images) + " images: " + runner::listed(without, kNamedGroups, "'"),
       "it is searched for in names without folder and extension, and must capture text in each "
       "of them"}};
}

std::optional<std::string> shared_groups(const ImageList& list) {
  std::map<std::string_view, std::set<const void*>> parts_of;
  for (const std::vector<ImageFile>& part : list.parts)
    for (const ImageFile& file : part) parts_of[file.patient].insert(&part);
  std::vector<std::string> shared;
  for (const auto& [group, parts] : parts_of)
    if (parts.size() > 1) shared.push_back("'" + runner::printable(group) + "'");
  if (shared.empty()) return std::nullopt;
  return "images of " + std::to_string(shared.size()) +
         (shared.size() == 1 ? " group" : " groups") +
         " are in more than one part, so results may be too optimistic: " +
         runner::listed(shared, kNamedGroups);
}

}  // namespace stages
