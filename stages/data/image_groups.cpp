#include "stages/data/image_groups.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

namespace stages {

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

}  // namespace stages
