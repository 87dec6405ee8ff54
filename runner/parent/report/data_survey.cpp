#include "runner/parent/report/data_survey.h"
#include "runner/parent/report/table_text.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/shared/text/join.h"
#include "runner/shared/text/printable.h"
#include "runner/shared/text/units.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kNamedFindings = 10;

std::string counted_word(std::int64_t count, const std::string& one, const std::string& many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

std::string file_text(const Json& image) {
  return "'" + printable(image["file"].get<std::string>()) + "'";
}

/// Returns "'a.png' (train) = 'b.png' (test)".
std::string group_text(const Json& group, const char* relation) {
  std::vector<std::string> files;
  for (const Json& image : group)
    files.push_back(file_text(image) + " (" + image["part"].get<std::string>() + ")");
  return join(files, relation);
}

/// Returns the first items of `list` and the number of remaining ones.
template <typename Show>
std::string named(const Json& list, std::int64_t count, const Show& show) {
  std::vector<std::string> names;
  for (const Json& one : list["shown"]) {
    if (names.size() == kNamedFindings || std::ssize(names) == count) break;
    names.push_back(show(one));
  }
  const std::int64_t more = count - std::ssize(names);
  return join(names, ", ") + (more > 0 ? " and " + std::to_string(more) + " more" : "");
}

/// Returns the groups that contain images of different classes.
Json of_several_classes(const Json& groups) {
  Json found = {{"shown", Json::array()}};
  for (const Json& group : groups["shown"])
    for (const Json& image : group)
      if (image["class"] != group[0]["class"] ||
          image.value("label_set", 0) != group[0].value("label_set", 0)) {
        found["shown"].push_back(group);
        break;
      }
  return found;
}

class Findings {
 public:
  explicit Findings(const Json& survey) : survey_(survey) {}

  void add(Severity severity, ErrorCode code, std::string message, std::string help) {
    Diagnostic finding{
        code, {}, survey_["pointer"].get<std::string>(), std::move(message), std::move(help)};
    finding.severity = severity;
    list.push_back(std::move(finding));
  }

  /// Adds findings about groups of copies, or of images that look the same.
  void add_groups(const Json& groups, Severity across_severity, const char* relation,
                  const std::string& same) {
    const auto count = groups["count"].get<std::int64_t>(),
               across = groups["across_parts"].get<std::int64_t>();
    const auto text = [&](const Json& group) { return group_text(group, relation); };
    if (across > 0)
      add(across_severity, ErrorCode::kBadAnnotations,
          counted_word(across, "image is", "images are") + " in more than one part, " + same +
              ": " + named(groups, across, text),
          "the model would be tested on images it was trained on: keep one of each, or all of them "
          "in one part");
    if (count > across) {
      const bool is_divided = survey_["divided"].get<bool>();
      Json within = groups;  // groups in more than one part come first
      within["shown"].erase(
          within["shown"].begin(),
          within["shown"].begin() + std::min<std::ptrdiff_t>(across, std::ssize(within["shown"])));
      const auto names = [&](const Json& group) {
        std::vector<std::string> files;
        for (const Json& image : group) files.push_back(file_text(image));
        return join(files, relation);
      };
      add(Severity::kWarning, ErrorCode::kBadAnnotations,
          counted_word(count - across, "image appears", "images appear") + " more than once" +
              (is_divided ? " in one part, " : ", ") + same + ": " +
              named(within, count - across, names),
          "");
    }
    if (const auto several = groups["several_classes"].get<std::int64_t>(); several > 0)
      add(Severity::kWarning, ErrorCode::kBadAnnotations,
          counted_word(several, "image that appears more than once, " + same + ", has",
                       "images that appear more than once, " + same + ", have") +
              " more than one class: " + named(of_several_classes(groups), several, text),
          "one of the classes is wrong: keep the correct one; if images can have several labels, "
          "set multi_label: true (data.image_folder) or labels (data.image_table)");
  }

  Diagnostics list;

 private:
  const Json& survey_;
};

std::string side_text(const Json& sides) {
  if (sides[0] == sides[2]) return std::to_string(sides[0].get<int>());
  return std::to_string(sides[0].get<int>()) + " to " + std::to_string(sides[2].get<int>()) +
         ", median " + std::to_string(sides[1].get<int>());
}

/// Returns a table with a row for each class and a column for each part.
std::string classes_text(const Json& survey, const TextStyle& style) {
  std::vector<std::vector<std::string>> rows = {{"class"}};
  for (const Json& part : survey["parts"]) rows.front().push_back(part["part"]);
  std::vector<std::string> sums = {"all"};
  for (std::size_t label = 0; label < survey["classes"].size(); ++label) {
    std::vector<std::string> row = {printable(survey["classes"][label].get<std::string>())};
    for (const Json& part : survey["parts"])
      row.push_back(label < part["by_class"].size()
                        ? std::to_string(part["by_class"][label].get<std::int64_t>())
                        : "");
    rows.push_back(std::move(row));
  }
  for (const Json& part : survey["parts"])
    sums.push_back(std::to_string(part["images"].get<std::int64_t>()));
  rows.push_back(std::move(sums));
  return table_text(rows, style.table_width());
}

}  // namespace

std::string data_survey_text(const Json& survey, const TextStyle& style) {
  std::string text = printable(survey["node"].get<std::string>()) + ": " +
                     counted_word(survey["images"].get<std::int64_t>(), "image", "images") + ", " +
                     size_text(survey["bytes"].get<std::int64_t>());
  text += "; widths " + side_text(survey["widths"]) + "; heights " + side_text(survey["heights"]);
  const auto patients = survey["patients"].get<std::int64_t>(),
             untold = survey["without_patient"].get<std::int64_t>();
  if (patients > 0) text += "; " + counted_word(patients, "patient", "patients");
  if (untold > 0) text += "; " + counted_word(untold, "name", "names") + " without a patient";
  if (survey["divided"].get<bool>()) return text + "\n\n" + classes_text(survey, style);
  return text + "; their classes and parts are unknown\n";
}

Diagnostics data_survey_findings(const Json& survey, const SurveyTolerance& tolerance) {
  const auto severity = [](bool is_tolerated) {
    return is_tolerated ? Severity::kWarning : Severity::kError;
  };
  Findings findings(survey);
  for (const Json& problem : survey["problems"]) {
    findings.add(Severity::kError, *error_code_named(problem["code"].get<std::string>()),
                 problem["message"], problem["help"]);
    findings.list.back().pointer = problem["pointer"];
  }
  if (const auto folders = survey.find("not_taken"); folders != survey.end()) {
    if (const auto count = (*folders)["count"].get<std::int64_t>(); count > 0)
      findings.add(Severity::kWarning, ErrorCode::kBadAnnotations,
                   counted_word(count, "folder of images belongs to no part: ",
                                "folders of images belong to no part: ") +
                       named(*folders, count,
                             [](const Json& one) {
                               return "'" + printable(one["folder"].get<std::string>()) + "' (" +
                                      std::to_string(one["images"].get<std::int64_t>()) + ")";
                             }),
                   "name the folders of parts train (training), validation (val, valid, dev) and "
                   "test (testing); each must contain a folder for each class, with the images of "
                   "that class directly in it");
  }
  const Json& unreadable = survey["unreadable"];
  if (const auto count = unreadable["count"].get<std::int64_t>(); count > 0)
    findings.add(severity(tolerance.unreadable), ErrorCode::kCorruptImage,
                 counted_word(count, "image cannot be read: ", "images cannot be read: ") +
                     named(unreadable, count,
                           [](const Json& one) {
                             return file_text(one) + " (" + one["why"].get<std::string>() + ")";
                           }),
                 "repair or remove them, or set on_corrupt: skip");
  findings.add_groups(survey["identical"], severity(tolerance.copies), " = ", "byte for byte");
  findings.add_groups(survey["alike"], Severity::kWarning, " ~ ", "visually identical");
  const Json& shared = survey["shared_patients"];
  if (const auto count = shared["count"].get<std::int64_t>(); count > 0)
    findings.add(
        Severity::kWarning, ErrorCode::kBadAnnotations,
        "images of " + counted_word(count, "patient", "patients") + " are in more than one part: " +
            named(shared, count, [](const Json& one) { return printable(one.get<std::string>()); }),
        "results may be too optimistic: split by patient");
  const Json& unlike = survey["strangers"];
  if (const auto count = unlike["count"].get<std::int64_t>(); count > 0)
    findings.add(Severity::kWarning, ErrorCode::kBadAnnotations,
                 counted_word(count, "image does not look like ", "images do not look like ") +
                     survey["subject"].get<std::string>() + ": " + named(unlike, count, file_text),
                 "");
  const Json& reduced = survey["reduced"];
  if (const auto count = reduced["count"].get<std::int64_t>(); count > 0)
    findings.add(Severity::kWarning, ErrorCode::kUnsupportedImage,
                 counted_word(count, "image has", "images have") +
                     " 16 bits per channel, of which the lower 8 are dropped: " +
                     named(reduced, count, file_text),
                 "an image whose values are all below 256 becomes black: scale values to the range "
                 "from 0 to 65535, or convert the images to 8 bits");
  return findings.list;
}

}  // namespace runner
