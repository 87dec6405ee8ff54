#include "stages/retina/data_fundus.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "runner/shared/stage/stage.h"
#include "runner/shared/text/join.h"
#include "stages/data/identical_files.h"
#include "stages/data/image_stage.h"
#include "stages/retina/fundus_list.h"
#include "stages/retina/retina.h"

namespace stages {
namespace {

Preprocessing read_preprocessing(runner::ConfigReader& reader) {
  runner::ConfigReader &flatten = reader.section("flatten_sharpen"),
                       &clahe = reader.section("clahe"), &crop = reader.section("crop_to_disc");
  bool flattens = false, equalizes = false, crops = false;
  CropToDisc cropping;
  crop.read("enabled", crops);
  crop.read("threshold", cropping.threshold);
  FlattenSharpen flattening;
  std::int64_t kernel_size = 0;
  flatten.read("enabled", flattens);
  flatten.read("kernel_size", kernel_size);
  flatten.read("brightness", flattening.brightness);
  flatten.read("contrast", flattening.contrast);
  flatten.read("sharpen", flattening.sharpen);
  flattening.kernel_size = static_cast<int>(kernel_size);
  Clahe equalizing;
  std::vector<std::int64_t> tiles;
  clahe.read("enabled", equalizes);
  clahe.read("clip_limit", equalizing.clip_limit);
  clahe.read("tiles", tiles);
  if (tiles.size() == 2) {
    equalizing.columns = static_cast<int>(tiles[0]);
    equalizing.rows = static_cast<int>(tiles[1]);
  }
  Preprocessing steps;
  if (crops) steps.crop_to_disc = cropping;
  if (flattens) steps.flatten_sharpen = flattening;
  if (equalizes) steps.clahe = equalizing;
  return steps;
}

/// Determines how file names identify patients: by the `patient` option, which is stored in
/// `pattern`, or, without it, as in published datasets.
std::shared_ptr<const PatientNames> read_patient_names(runner::ConfigReader& reader,
                                                       std::optional<std::string>& pattern) {
  reader.read("patient", pattern);
  try {
    return std::make_shared<const PatientNames>(pattern);
  } catch (const std::invalid_argument& error) {
    reader.fail("patient", runner::ErrorCode::kBadPattern,
                "'" + *pattern + "' is not a valid pattern for patients: " + error.what(),
                "write a regular expression such as '^(\\d+)_': its first group, or a group called "
                "patient, matches the patient");
    return std::make_shared<const PatientNames>();
  }
}

/// Rejects a pattern that finds no patient in any name.
runner::Result<ImageList> with_patients(runner::Result<ImageList> list) {
  if (!list) return list;
  const std::string* name = nullptr;
  for (const auto& part : list->parts) {
    for (const ImageFile& file : part) {
      if (file.names_patient) return list;
      if (!name) name = &file.name;
    }
  }
  if (!name) return list;
  return runner::Diagnostics{
      {runner::ErrorCode::kBadPattern,
       {},
       "/patient",
       "the pattern does not find a patient in any name, such as '" + *name + "'",
       "it is applied to names without folder or extension; omit patient if "
       "the names are as in a published dataset"}};
}

runner::Result<std::unique_ptr<runner::Stage>> create_fundus(runner::ConfigReader& reader) {
  ImageOptions options = read_image_options(reader);
  options.images.preprocessing = read_preprocessing(reader);
  options.images.change_order = ChangeOrder::kPlacesFirst;
  options.images.subject = &kRetina;
  reader.read("cache_on_disk", options.cache_on_disk);
  const auto layout = runner::choice<FundusLayout>(reader, "layout",
                                                   {{"class_folders", FundusLayout::kClassFolders},
                                                    {"aptos_2019", FundusLayout::kAptos2019},
                                                    {"eyepacs_2015", FundusLayout::kEyepacs2015}});
  const auto duplicates = runner::choice<Duplicates>(
      reader, "duplicates",
      {{"stop", Duplicates::kStop}, {"drop", Duplicates::kDrop}, {"keep", Duplicates::kKeep}});
  std::optional<std::string> pattern;
  const auto names = read_patient_names(reader, pattern);
  ImageSource source;
  read_split(reader.section("split"), source);
  source.folds = read_folds(reader);
  SplitOptions& shares = *source.split;
  const SplitOptions wanted = shares;
  if (const double rest = shares.train + shares.validation;
      has_published_test(options.root, layout) && rest > 0)
    shares = {.train = shares.train / rest, .validation = shares.validation / rest, .test = 0};
  source.divided_by =
      "layout " + std::string(layout == FundusLayout::kClassFolders ? "class_folders"
                              : layout == FundusLayout::kAptos2019  ? "aptos_2019"
                                                                    : "eyepacs_2015");
  if (pattern) source.divided_by += ", patient '" + *pattern + "'";
  source.list = [root = options.root, layout, outside = options.allow_outside, names] {
    auto list = list_fundus(root, layout, outside, *names);
    return names->has_pattern() ? with_patients(std::move(list)) : std::move(list);
  };
  source.look = [duplicates, wanted](ImageList& list, runner::RunContext& context) {
    check_fundus_parts(list, wanted, duplicates, context);
  };
  return image_stage(reader, options, std::move(source));
}

}  // namespace

extern const runner::StageKind kDataFundus = {.name = "data.fundus", .create = create_fundus};

namespace {

using runner::ErrorCode;
using runner::StageError;

constexpr std::array kPartsInOrder = {Part::kTrain, Part::kValidation, Part::kTest};
constexpr std::size_t kNamedCopies = 5, kNamedPatients = 10;

std::string counted_of(std::size_t count, const std::string& thing) {
  return std::to_string(count) + " " + thing + (count == 1 ? "" : "s");
}

const ImageFile& at_place(const ImageList& list, const ImagePlace& place) {
  return list[place.part][place.index];
}

/// Returns "images of grades 0 to 4: train 12, 3, 4, 2, 1; test 5, 1, 1, 1, 1".
std::string counts_by_grade(const ImageList& list) {
  std::vector<std::string> texts;
  for (const Part part : kPartsInOrder) {
    std::vector<std::size_t> counts(list.classes.size());
    for (const ImageFile& file : list[part]) ++counts[static_cast<std::size_t>(file.label)];
    if (list[part].empty()) continue;
    std::vector<std::string> numbers;
    for (const std::size_t count : counts) numbers.push_back(std::to_string(count));
    texts.push_back(std::string(name(part)) + " " + runner::join(numbers, ", "));
  }
  return "images of grades 0 to " + std::to_string(list.classes.size() - 1) + ": " +
         runner::join(texts, "; ");
}

/// Images that belong together.
struct Owned {
  std::set<Part> parts;
  std::set<std::string_view> names;  // of files, without their folders
  std::size_t photographs = 0;
  bool is_patient = false;
};

std::map<std::string_view, Owned> by_owner(const ImageList& list) {
  std::map<std::string_view, Owned> owners;
  for (const Part part : kPartsInOrder) {
    for (const ImageFile& file : list[part]) {
      if (file.patient.empty()) continue;
      Owned& owner = owners[file.patient];
      owner.parts.insert(part);
      owner.names.insert(std::string_view(file.name).substr(file.name.rfind('/') + 1));
      owner.is_patient = file.names_patient;
      ++owner.photographs;
    }
  }
  return owners;
}

void report_shared(const std::vector<std::string>& shared, const std::string& thing,
                   runner::RunContext& context) {
  if (shared.empty()) return;
  context.say("images of " + counted_of(shared.size(), thing) +
              " are in more than one part, so results may be too optimistic: " +
              runner::listed(shared, kNamedPatients));
}

void report_patients(const ImageList& list, runner::RunContext& context) {
  std::size_t patients = 0, named = 0, unnamed = 0, copies = 0;
  std::vector<std::string> shared, shared_images;
  for (const auto& [owner, has] : by_owner(list)) {
    // Images with the same name in two folders are reported by check_copies() if they are copies.
    const bool has_copies = !has.is_patient && has.names.size() > 1;
    (has.is_patient ? named : unnamed) += has.photographs;
    if (has.is_patient) ++patients;
    if (has_copies) copies += has.photographs - 1;
    if (has.parts.size() < 2) continue;
    if (has.is_patient) shared.emplace_back(owner);
    else if (has_copies) shared_images.push_back("'" + std::string(*has.names.begin()) + "'");
  }
  std::string text = patients == 0
                         ? "patients: no file name identifies a patient, so images of one patient "
                           "may be in two parts"
                         : "patients: " + std::to_string(patients) +
                               ", identified from the names of " + counted_of(named, "image");
  if (patients > 0 && unnamed > 0)
    text += "; " + std::to_string(unnamed) +
            (unnamed == 1 ? " name identifies none" : " names identify none");
  if (copies > 0)
    text += "; " + counted_of(copies, "image") +
            (copies == 1 ? " is a copy of another" : " are copies of others") +
            ", judging by the names";
  context.say(text);
  report_shared(shared, "patient", context);
  report_shared(shared_images, "duplicated image", context);
}

/// Returns "'0/a.png' in train and '0/b.png' in test".
std::string places_text(const ImageList& list, const std::vector<ImagePlace>& places) {
  std::vector<std::string> texts;
  for (const ImagePlace& place : places)
    texts.push_back("'" + at_place(list, place).name + "' in " + std::string(name(place.part)));
  return runner::join(texts, " and ");
}

/// Removes all copies from the list except those in the last part.
void leave_out(ImageList& list, const std::vector<std::vector<ImagePlace>>& groups,
               runner::RunContext& context) {
  std::array<std::set<std::size_t>, kSplitParts> gone;
  for (const auto& group : groups) {
    for (const ImagePlace& place : group)
      if (place.part != group.back().part)
        gone[static_cast<std::size_t>(place.part)].insert(place.index);
  }
  for (const Part part : {Part::kTrain, Part::kValidation}) {
    const std::set<std::size_t>& indices = gone[static_cast<std::size_t>(part)];
    if (indices.empty()) continue;
    std::vector<ImageFile> kept;
    for (std::size_t i = 0; i < list[part].size(); ++i)
      if (!indices.contains(i)) kept.push_back(std::move(list[part][i]));
    list[part] = std::move(kept);
    context.say("left out of " + std::string(name(part)) + ": " +
                counted_of(indices.size(), "image") + " that " +
                (indices.size() == 1 ? "is" : "are") + " also in a later part");
  }
}

void check_copies(ImageList& list, Duplicates duplicates, runner::RunContext& context) {
  auto groups = identical_files(list, [&] {
    if (context.canceled()) throw runner::Canceled{};
  });
  const auto all = groups.size();
  const auto has_two_grades = [&](const std::vector<ImagePlace>& group) {
    return std::ranges::any_of(group, [&](const ImagePlace& place) {
      return at_place(list, place).label != at_place(list, group.front()).label;
    });
  };
  const auto contradictory = std::ranges::count_if(groups, has_two_grades);
  std::erase_if(groups, [](const auto& group) { return group.front().part == group.back().part; });
  if (all > 0)
    context.say(counted_of(all, "image") + " " + (all == 1 ? "is" : "are") +
                " present more than once, byte for byte: " + std::to_string(groups.size()) +
                " in more than one part, " + std::to_string(contradictory) +
                " with more than one grade");
  if (groups.empty()) return;
  if (duplicates == Duplicates::kDrop) return leave_out(list, groups, context);
  std::vector<std::string> texts;
  for (const auto& group : groups) texts.push_back(places_text(list, group));
  const std::string message =
      counted_of(groups.size(), "image") + (groups.size() == 1 ? " is" : " are") +
      " in more than one part, byte for byte: " + runner::listed(texts, kNamedCopies);
  if (duplicates == Duplicates::kKeep) return context.say(message);
  throw StageError(ErrorCode::kBadAnnotations, message)
      .at("/duplicates")
      .with_help(
          "the model would be tested on images that it was trained on; duplicates: drop leaves the "
          "copies out of the earlier part");
}

void check_emptiness(const ImageList& list, const SplitOptions& wanted, bool has_all,
                     const runner::NodeFacts& node) {
  const std::array<double, kSplitParts> shares = {wanted.train, wanted.validation, wanted.test};
  for (const Part part : kPartsInOrder) {
    const bool is_asked_for =
        has_all ? shares[static_cast<std::size_t>(part)] > 0 : part == Part::kTrain;
    if (!list[part].empty() || !is_asked_for || !node.wants(std::string(name(part)))) continue;
    std::size_t count = 0;
    for (const auto& files : list.parts) count += files.size();
    throw StageError(
        ErrorCode::kTooFewSamples,
        "none of " + counted_of(count, "image") + " is left for '" + std::string(name(part)) + "'")
        .at(has_all ? "/split" : "/root")
        .with_help(has_all ? "raise its fraction, or set it to 0 to do without this part"
                           : "put images there");
  }
}

}  // namespace

void check_fundus_parts(ImageList& list, const SplitOptions& wanted, Duplicates duplicates,
                        runner::RunContext& context) {
  check_copies(list, duplicates, context);
  check_emptiness(list, wanted, /*has_all=*/!list.divided, context.node());
  report_patients(list, context);
  context.say(counts_by_grade(list));
}

}  // namespace stages
