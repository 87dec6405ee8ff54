#include "stages/data/image_folds.h"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "runner/shared/stage/stage.h"
#include "runner/shared/text/join.h"
#include "runner/shared/text/printable.h"
#include "stages/data/image_groups.h"
#include "stages/random/random.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

constexpr std::size_t kNamedClasses = 5;

void refuse_own_validation(const ImageList& list) {
  if (list[Part::kValidation].empty()) return;
  throw StageError(ErrorCode::kOptionConflict,
                   "the data already has a validation part, with " +
                       std::to_string(list[Part::kValidation].size()) +
                       (list[Part::kValidation].size() == 1 ? " image" : " images") +
                       ", but one of the folds would become the validation part")
      .at("/folds")
      .with_help(
          "set folds: null, or move the validation images to the training part, which is divided "
          "into folds");
}

/// Returns the number of groups with images of each class or, if the list has label sets, of each
/// label. If the list has targets, all images count as one class.
std::vector<std::int64_t> group_counts(const ImageList& list,
                                       const std::vector<std::vector<ImageGroup>>& classes) {
  if (list.has_targets) return {std::ssize(classes.front())};
  std::vector<std::int64_t> counts(list.classes.size());
  for (std::size_t label = 0; label < classes.size(); ++label) {
    if (!list.has_label_sets) counts[label] = std::ssize(classes[label]);
    for (const ImageGroup& group : classes[label]) {
      if (!list.has_label_sets) break;
      std::set<std::int64_t> labels;
      for (const std::size_t file : group.files) {
        const auto set = static_cast<std::size_t>(list[Part::kTrain][file].label_set);
        labels.insert(list.label_sets[set].begin(), list.label_sets[set].end());
      }
      for (const std::int64_t one : labels) ++counts[static_cast<std::size_t>(one)];
    }
  }
  return counts;
}

/// Throws if a class has too few groups for each fold to get one.
void check_classes(const ImageList& list, const std::vector<std::vector<ImageGroup>>& classes,
                   const FoldOptions& folds) {
  const bool has_groups = std::ranges::any_of(
      list[Part::kTrain], [](const ImageFile& file) { return !file.patient.empty(); });
  std::vector<std::string> small;
  const std::vector<std::int64_t> counts = group_counts(list, classes);
  for (std::size_t label = 0; label < counts.size(); ++label) {
    if (counts[label] < folds.count)
      small.push_back("'" + runner::printable(list.classes[label]) + "' has " +
                      std::to_string(counts[label]));
  }
  if (small.empty()) return;
  const std::string thing = has_groups ? "groups" : "images";
  const std::string kind = list.has_label_sets ? "label" : list.has_targets ? "target" : "class";
  throw StageError(ErrorCode::kTooFewSamples,
                   "there are " + std::to_string(folds.count) + " folds, but " +
                       (small.size() == 1 ? "a " + kind + " has"
                                          : std::to_string(small.size()) + ' ' + kind +
                                                (list.has_label_sets ? "s have" : "es have")) +
                       " fewer " + thing +
                       " for training and validation: " + runner::listed(small, kNamedClasses))
      .at("/folds/count")
      .with_help(list.has_targets ? "lower folds.count, or add images"
                                  : "lower folds.count, or leave out small " + kind +
                                        (list.has_label_sets ? "s" : "es"));
}

/// Returns the groups of a class in the order in which they are assigned to folds.
std::vector<const ImageGroup*> dealt(const std::vector<ImageGroup>& groups, std::uint64_t seed) {
  std::vector<std::string_view> names;
  for (const ImageGroup& group : groups) names.push_back(group.name);
  std::vector<const ImageGroup*> order;
  for (const std::size_t place : drawn_by_name(names, seed)) order.push_back(&groups[place]);
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [](const ImageGroup* group) { return group->files.size(); });
  return order;
}

/// Returns the fold of each training image.
std::vector<std::size_t> fold_of_images(const std::vector<std::vector<ImageGroup>>& classes,
                                        std::size_t images, const FoldOptions& folds,
                                        std::uint64_t seed) {
  std::vector<std::size_t> fold_of(images), in_all(static_cast<std::size_t>(folds.count));
  for (const std::vector<ImageGroup>& groups : classes) {
    std::vector<std::size_t> of_class(in_all.size());
    for (const ImageGroup* const group : dealt(groups, seed)) {
      std::size_t least = 0;
      for (std::size_t fold = 1; fold < in_all.size(); ++fold)
        if (std::tie(of_class[fold], in_all[fold]) < std::tie(of_class[least], in_all[least]))
          least = fold;
      of_class[least] += group->files.size();
      in_all[least] += group->files.size();
      for (const std::size_t file : group->files) fold_of[file] = least;
    }
  }
  return fold_of;
}

}  // namespace

void take_fold(ImageList& list, const FoldOptions& folds, std::uint64_t seed) {
  assert(folds.count >= 2 && folds.index >= 0 && folds.index < folds.count);
  refuse_own_validation(list);
  const auto classes = groups_by_class(list[Part::kTrain]);
  check_classes(list, classes, folds);
  const auto fold_of = fold_of_images(classes, list[Part::kTrain].size(), folds, seed);
  std::vector<ImageFile> files = std::exchange(list[Part::kTrain], {});
  for (std::size_t i = 0; i < files.size(); ++i) {
    const bool is_validated = fold_of[i] == static_cast<std::size_t>(folds.index);
    list[is_validated ? Part::kValidation : Part::kTrain].push_back(std::move(files[i]));
  }
}

}  // namespace stages
