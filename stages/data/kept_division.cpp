#include "stages/data/kept_division.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "runner/shared/stage/run_layout.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/text/join.h"
#include "runner/shared/text/printable.h"
#include "stages/data/label_columns.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using runner::ErrorCode;
using runner::StageError;

constexpr std::array kDividedParts = {Part::kTrain, Part::kValidation, Part::kTest};
constexpr std::size_t kNamedImages = 5;

using PartOf = std::unordered_map<std::string_view, std::string_view>;  // by image name

PartOf part_of_images(const Division& division) {
  PartOf result;
  for (const auto& [part, files] : division.parts)
    for (const Division::File& file : files) result.emplace(file.name, part);
  return result;
}

std::string images_text(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " image" : " images");
}

std::string listed_names(const std::vector<std::string>& names) {
  return runner::listed(names, kNamedImages, "'");
}

/// Returns the names of the images of `one` that are not in `other`.
std::vector<std::string> names_lacking(const Division& one, const Division& other) {
  const PartOf known = part_of_images(other);
  std::vector<std::string> result;
  for (const auto& [part, files] : one.parts)
    for (const Division::File& file : files)
      if (!known.contains(file.name)) result.push_back(runner::printable(file.name));
  std::ranges::sort(result);
  return result;
}

/// True if `other` has all files of `one`, with the same sizes.
bool is_copied_in(const Division& one, const Division& other) {
  std::unordered_map<std::string_view, std::uintmax_t> sizes;
  for (const auto& [part, files] : other.parts)
    for (const Division::File& file : files) sizes.emplace(file.name, file.bytes);
  for (const auto& [part, files] : one.parts) {
    for (const Division::File& file : files) {
      const auto found = sizes.find(file.name);
      if (found == sizes.end() || found->second != file.bytes) return false;
    }
  }
  return true;
}

void drop_missing(Division& division, const Division& now) {
  const PartOf there = part_of_images(now);
  for (auto& [part, files] : division.parts)
    std::erase_if(files, [&](const Division::File& file) { return !there.contains(file.name); });
}

/// Drops the rows of facts used only by removed images.
void drop_facts(ImageList& list, const std::unordered_set<std::int64_t>& of_gone) {
  std::unordered_set<std::int64_t> used;
  for (const auto& part : list.parts)
    for (const ImageFile& file : part) used.insert(file.facts);
  std::vector<std::int64_t> place_of(list.facts.rows.size(), 0);
  std::vector<std::vector<std::string>> rows;
  for (std::size_t row = 0; row < list.facts.rows.size(); ++row) {
    const auto number = static_cast<std::int64_t>(row);
    place_of[row] = static_cast<std::int64_t>(rows.size());
    if (used.contains(number) || !of_gone.contains(number))
      rows.push_back(std::move(list.facts.rows[row]));
  }
  list.facts.rows = std::move(rows);
  for (auto& part : list.parts)
    for (ImageFile& file : part)
      if (static_cast<std::size_t>(file.facts) < place_of.size())
        file.facts = place_of[static_cast<std::size_t>(file.facts)];
}

}  // namespace

ImageList left_out(const ImageList& all, const ImageList& divided) {
  std::unordered_set<std::string_view> in_parts;
  for (const auto& part : divided.parts)
    for (const ImageFile& file : part) in_parts.insert(file.name);
  ImageList rest{.root = all.root, .classes = all.classes};
  for (const Part part : kDividedParts)
    for (const ImageFile& file : all[part])
      if (!in_parts.contains(file.name)) rest[part].push_back(file);
  return rest;
}

Division division_of(const ImageList& divided, const ImageList& all, std::string drawn_by) {
  Division division{
      .root = division_root(all.root), .drawn_by = std::move(drawn_by), .classes = {}, .parts = {}};
  division.classes.emplace(Division::kEveryPart, all.classes);
  const auto add = [&](std::string_view part, const ImageFile& file) {
    division.parts[std::string(part)].push_back({file.name, bytes_of_file(all.root / file.name)});
  };
  for (const Part part : kDividedParts) {
    for (const ImageFile& file : divided[part]) add(name(part), file);
  }
  for (const auto& part : left_out(all, divided).parts)
    for (const ImageFile& file : part) add(Division::kNoPart, file);
  return division;
}

bool has_same_parts(const Division& one, const Division& other) {
  const PartOf a = part_of_images(one), b = part_of_images(other);
  const auto agree = [](const PartOf& of_one, const PartOf& of_other) {
    return std::ranges::all_of(of_one, [&](const auto& image) {
      const auto found = of_other.find(image.first);
      const bool is_there = found != of_other.end();
      return image.second == Division::kNoPart ||
             (is_there && found->second == Division::kNoPart) ||
             (is_there && found->second == image.second);
    });
  };
  return agree(a, b) && agree(b, a);
}

std::optional<Division> division_to_keep(const Division& now, bool by_chance,
                                         runner::RunContext& context) {
  const runner::NodeFacts& node = context.node();
  if (node.earlier.empty()) return std::nullopt;
  const fs::path file = runner::NodeLayout(node.earlier).division();
  std::error_code error;
  if (!fs::exists(file, error)) {
    if (!by_chance) return std::nullopt;
    const std::string message =
        "the run has no record of how its images were divided: '" + file.string() + "' is missing";
    if (node.resuming && !node.accepts_changes)
      throw StageError(ErrorCode::kChangedRun, message)
          .at("/split")
          .with_help(
              "the run was started by a version that did not record it: start a new run, or add "
              "--force to divide the images again");
    context.say(message +
                ", so they are divided again: the model may have been trained on test images");
    return std::nullopt;
  }
  Division earlier = read_division(file);
  const bool is_same_root = earlier.root == now.root;
  if (earlier.drawn_by != now.drawn_by) {
    if (is_same_root)
      context.say("not divided as in the previous run, which used " + earlier.drawn_by +
                  "; this run uses " + now.drawn_by);
    return std::nullopt;
  }
  if (!is_same_root && !is_copied_in(earlier, now)) {
    context.debug("the previous run's division is not used: its images were in '" + earlier.root +
                  "'");
    return std::nullopt;
  }
  const std::vector<std::string> missing = names_lacking(earlier, now),
                                 added = names_lacking(now, earlier);
  if (!missing.empty()) {
    const std::string message = images_text(missing.size()) + " in the run's record " +
                                (missing.size() == 1 ? "is" : "are") +
                                " missing: " + listed_names(missing);
    if (!node.accepts_changes)
      throw StageError(ErrorCode::kChangedRun, message)
          .at("/root")
          .with_help("restore them, or add --force to leave them out");
    context.say(message + "; they are left out");
    drop_missing(earlier, now);
  }
  if (!added.empty())
    context.say(images_text(added.size()) + (added.size() == 1 ? " has" : " have") +
                " been added since the run started, so no part contains them: " +
                listed_names(added) + "; a new run would use them");
  const bool is_same = missing.empty() && added.empty() && earlier.classes == now.classes &&
                       has_same_parts(earlier, now);
  return is_same ? std::nullopt : std::optional(std::move(earlier));
}

void keep_only(ImageList& list, const Division& division) {
  const PartOf known = part_of_images(division);
  const auto every_class = division.classes.find(Division::kEveryPart);
  const std::vector<std::string> classes =
      every_class == division.classes.end() ? std::vector<std::string>() : every_class->second;
  std::unordered_map<std::string_view, std::int64_t> labels;
  for (const std::string& name : classes)
    labels.emplace(name, static_cast<std::int64_t>(labels.size()));
  const std::vector<bool> known_sets = relabel(list, classes);
  std::unordered_set<std::int64_t> facts_of_gone;
  for (auto& part : list.parts) {
    std::vector<ImageFile> kept;
    for (ImageFile& file : part) {
      const auto label = labels.find(list.classes[static_cast<std::size_t>(file.label)]);
      const bool has_known_labels =
          !list.has_label_sets || known_sets[static_cast<std::size_t>(file.label_set)];
      if (label == labels.end() || !has_known_labels || !known.contains(file.name)) {
        facts_of_gone.insert(file.facts);
        continue;
      }
      file.label = label->second;
      kept.push_back(std::move(file));
    }
    part = std::move(kept);
  }
  list.classes = classes;
  drop_facts(list, facts_of_gone);
}

ImageList divided_as(const ImageList& list, const Division& division) {
  const PartOf part_of = part_of_images(division);
  ImageList result = list;
  for (auto& part : result.parts) part.clear();
  for (const auto& files : list.parts) {
    for (const ImageFile& file : files) {
      const auto found = part_of.find(file.name);
      if (found == part_of.end()) continue;
      for (const Part part : kDividedParts)
        if (found->second == name(part)) result[part].push_back(file);
    }
  }
  return result;
}

Division division_of(const FewShotLists& lists, const FewShotLists& spare, std::string drawn_by) {
  Division division{.root = division_root(lists.front()->root),
                    .drawn_by = std::move(drawn_by),
                    .classes = {},
                    .parts = {}};
  for (const Part part : kDividedParts) {
    const ImageList& list = *lists[static_cast<std::size_t>(part)];
    const std::string part_name(name(part));
    division.classes[part_name] = list.classes;
    for (const ImageFile& file : list[part])
      division.parts[part_name].push_back({file.name, bytes_of_file(list.root / file.name)});
  }
  std::unordered_set<std::string> known;
  for (const auto& [part, files] : division.parts)
    for (const Division::File& file : files) known.insert(file.name);
  for (const auto& list : spare)
    for (const auto& part : list->parts)
      for (const ImageFile& file : part)
        if (known.insert(file.name).second)
          division.parts[std::string(Division::kNoPart)].push_back(
              {file.name, bytes_of_file(lists.front()->root / file.name)});
  return division;
}

FewShotLists divided_as(const FewShotLists& lists, const FewShotLists& spare,
                        const Division& division) {
  const PartOf part_of = part_of_images(division);
  std::array<ImageList, kSplitParts> made;
  std::array<std::unordered_map<std::string_view, std::int64_t>, kSplitParts> labels;
  for (const Part part : kDividedParts) {
    const auto i = static_cast<std::size_t>(part);
    made[i].root = lists[i]->root;
    made[i].annotations = lists[i]->annotations;
    made[i].not_taken = lists[i]->not_taken;
    made[i].notes = lists[i]->notes;
    const auto classes = division.classes.find(name(part));
    if (classes != division.classes.end()) made[i].classes = classes->second;
    for (const std::string& name : made[i].classes)
      labels[i].emplace(name, static_cast<std::int64_t>(labels[i].size()));
  }
  std::unordered_set<std::string_view> taken;
  const auto take = [&](const ImageList& list, const ImageFile& file) {
    const auto found = part_of.find(file.name);
    for (const Part to : kDividedParts) {
      if (found == part_of.end() || found->second != name(to) || !taken.insert(file.name).second)
        continue;
      const auto i = static_cast<std::size_t>(to);
      const auto label = labels[i].find(list.classes[static_cast<std::size_t>(file.label)]);
      if (label != labels[i].end())
        made[i][to].push_back({.name = file.name, .label = label->second});
    }
  };
  for (const FewShotLists* some : {&lists, &spare})
    for (const auto& list : *some)
      for (const auto& part : list->parts)
        for (const ImageFile& file : part) take(*list, file);
  FewShotLists result;
  for (const Part part : kDividedParts) {
    ImageList& list = made[static_cast<std::size_t>(part)];
    std::ranges::sort(list[part], [](const ImageFile& a, const ImageFile& b) {
      return std::tie(a.label, a.name) < std::tie(b.label, b.name);
    });
    result[static_cast<std::size_t>(part)] = std::make_shared<const ImageList>(std::move(list));
  }
  return result;
}

}  // namespace stages
