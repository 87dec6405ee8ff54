#include "stages/retina/patient_names.h"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "runner/shared/text/image_names.h"

namespace stages {
namespace {

using Extent = Expression::Extent;

/// What tools call the copies that they make. In this and all patterns below, what is repeated inside of repetitions is
/// possessive, so that no name takes long.
constexpr const char* kChange =
    "(?:copy|dup(?:licate)?|orig(?:inal)?|aug(?:m(?:ent(?:ed|ation)?)?)?|[hv]?[-_]?flip(?:ped)?(?:[-_]?(?:hv|lr|ud|["
    "hvxy]))?|"
    "mir(?:ror(?:ed)?)?|rot(?:at(?:e|ed|ion))?|transposed?|(?:center|random)?-?crop(?:ped)?|zoom(?:ed)?|"
    "shear(?:ed)?|"
    "shift(?:ed)?|translat(?:e|ed|ion)|scaled?|resized?|bright(?:ness|er|ened)?|dark(?:er|ened)?|contrast|gamma|hue|"
    "sat(?:uration)?|colou?r(?:ed)?|jitter|blur(?:red)?|gauss(?:ian)?|nois[ey]|sharp(?:en|ened)?|clahe|equali[sz]ed?|"
    "enhanced|(?:pre)?processed|affine|elastic|distort(?:ed|ion)?|cutout|f[ab]|gf)";
constexpr const char* kEnding = "(?:jpe?g|png|webp|tiff?|bmp)";

/// All of them, compiled.
std::vector<Expression> compiled(const std::vector<std::string>& patterns) {
  std::vector<Expression> all;
  for (const std::string& pattern : patterns) all.emplace_back("(?i)" + pattern);
  return all;
}

std::optional<std::string> first_match(const std::vector<Expression>& patterns, const std::string& name) {
  for (const Expression& pattern : patterns) {
    std::optional<std::string> taken = pattern.capture_or_first(name, "patient");
    if (taken && !taken->empty()) return taken;
  }
  return std::nullopt;
}

std::string without_ending(std::string_view file) {
  return std::string(runner::is_image_name(file) ? file.substr(0, file.rfind('.')) : file);
}

}  // namespace

PatientNames::PatientNames(const std::optional<std::string>& pattern) {
  if (pattern) {
    pattern_.emplace(*pattern, Extent::kAnyPart);
    if (!pattern_->has_groups()) throw std::invalid_argument("it has no group: put what is the patient in parentheses");
  }
  const std::string change = kChange, ending = kEnding;
  // Names in which Roboflow and Augmentor keep the old one.
  wrappers_ =
      compiled({"(.+?)[_.]" + ending + "\\.rf\\.[0-9a-z]{8,}", ".*_original_(.+?)\\." + ending + "_[0-9a-f-]{36}"});
  prefixes_ = compiled({"(?:(?:rot(?:at(?:e|ed|ion))?[-_]\\d+|" + change + "\\d*)(?:deg)?[-_ .]++)+(\\D*+\\d.*)"});
  eyes_ = compiled({
      "(\\D*+\\d.*?)[-_ .]*+(?<=[-_ .\\d])(?:left|right|od|os)(?![a-z]).*",
      "(\\d+)[-_][lr][1-9]?(?![a-z0-9]).*",
      "(?:left|right)[-_ .]+(\\d+).*",
  });
  pictures_ = compiled({
      "([0-9a-f]{12})(?![0-9a-z]).*",                        // APTOS
      "(\\d{8}_\\d{4,5}_\\d{4}_pp|im\\d{6})(?![0-9a-z]).*",  // Messidor
      "(idrid_\\d+).*",
      "(\\d{3}-\\d{4})-\\d{3}(?!\\d).*",  // DDR, the last number may be another picture of the same eye
      "(\\d{17})(?!\\d).*",               // DDR
  });
  suffixes_ = compiled({"(\\D*+\\d.*?)(?:[-_ .]++" + change + "(?:[-_ .]*+\\d++)*+(?:deg)?(?: ?\\(\\d+\\))?)+"});
}

PictureOwner PatientNames::of(std::string_view file) const {
  std::string name = without_ending(file);
  if (pattern_) {
    std::optional<std::string> patient = pattern_->capture_or_first(name, "patient");
    if (patient && !patient->empty()) return {*std::move(patient), /*is_patient=*/true};
  }
  for (const auto* const patterns : {&wrappers_, &prefixes_}) {
    if (std::optional<std::string> inner = first_match(*patterns, name)) name = *std::move(inner);
  }
  if (!pattern_) {
    if (std::optional<std::string> patient = first_match(eyes_, name)) return {*std::move(patient), true};
  }
  for (const auto* const patterns : {&pictures_, &suffixes_}) {
    if (std::optional<std::string> picture = first_match(*patterns, name)) return {*std::move(picture), false};
  }
  return {std::move(name), false};
}

}  // namespace stages
