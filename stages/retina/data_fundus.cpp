#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "stages/retina/fundus_list.h"
#include "stages/retina/fundus_parts.h"
#include "stages/data/image_stage.h"
#include "stages/retina/patient_names.h"
#include "stages/retina/retina_check.h"

namespace stages {
namespace {

Preprocessing read_preprocessing(runner::ConfigReader& reader) {
  runner::ConfigReader &flatten = reader.section("flatten_sharpen"), &clahe = reader.section("clahe");
  bool flattens = false, equalises = false;
  FlattenSharpen flattening;
  std::int64_t kernel_size = 0;
  flatten.read("enabled", flattens);
  flatten.read("kernel_size", kernel_size);
  flatten.read("brightness", flattening.brightness);
  flatten.read("contrast", flattening.contrast);
  flatten.read("sharpen", flattening.sharpen);
  flattening.kernel_size = static_cast<int>(kernel_size);
  Clahe equalising;
  std::vector<std::int64_t> tiles;
  clahe.read("enabled", equalises);
  clahe.read("clip_limit", equalising.clip_limit);
  clahe.read("tiles", tiles);
  if (tiles.size() == 2) {
    equalising.columns = static_cast<int>(tiles[0]);
    equalising.rows = static_cast<int>(tiles[1]);
  }
  Preprocessing steps;
  if (flattens) steps.flatten_sharpen = flattening;
  if (equalises) steps.clahe = equalising;
  return steps;
}

/// How the names of files tell the patients, by the option `patient`, which is put into `pattern`, or else as published
/// sets do.
std::shared_ptr<const PatientNames> read_patient_names(runner::ConfigReader& reader,
                                                       std::optional<std::string>& pattern) {
  reader.read("patient", pattern);
  try {
    return std::make_shared<const PatientNames>(pattern);
  } catch (const std::invalid_argument& error) {
    reader.fail("patient", runner::ErrorCode::kBadPattern,
                "'" + *pattern + "' is not a pattern of patients: " + error.what(),
                "such as '^(\\d+)_': what the first group takes, or one called patient, is the patient");
    return std::make_shared<const PatientNames>();
  }
}

/// Refuses a pattern that finds no patient in any name.
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
  return runner::Diagnostics{{runner::ErrorCode::kBadPattern,
                              {},
                              "/patient",
                              "it finds a patient in no file's name, such as '" + *name + "'",
                              "it is looked for in the name without folder and ending; leave it out for the names of "
                              "published sets"}};
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
      reader, "duplicates", {{"stop", Duplicates::kStop}, {"drop", Duplicates::kDrop}, {"keep", Duplicates::kKeep}});
  std::optional<std::string> pattern;
  const auto names = read_patient_names(reader, pattern);
  ImageSource source;
  read_split(reader.section("split"), source);
  SplitOptions& shares = *source.split;
  const SplitOptions wanted = shares;
  if (const double rest = shares.train + shares.validation; has_published_test(options.root, layout) && rest > 0)
    shares = {.train = shares.train / rest, .validation = shares.validation / rest, .test = 0};
  source.divided_by = "layout " + std::string(layout == FundusLayout::kClassFolders ? "class_folders"
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

}  // namespace stages
