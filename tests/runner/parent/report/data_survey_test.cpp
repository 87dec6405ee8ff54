#include "runner/parent/report/data_survey.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace runner {
namespace {

using Json = nlohmann::ordered_json;
using testing::ElementsAre;
using testing::IsEmpty;

Json clean_survey() {
  return Json::parse(R"({
    "node": "data", "pointer": "/data", "divided": true, "problems": [], "images": 5, "bytes": 4096, "widths": [10, 20, 30], "heights": [5, 6, 7],
    "classes": ["No DR", "PDR"],
    "parts": [{"part": "train", "images": 4, "by_class": [1, 3]}, {"part": "test", "images": 1, "by_class": [0, 1]}],
    "unreadable": {"count": 0, "shown": []},
    "identical": {"count": 0, "shown": [], "across_parts": 0, "several_classes": 0},
    "alike": {"count": 0, "shown": [], "across_parts": 0, "several_classes": 0},
    "patients": 0, "without_patient": 0, "shared_patients": {"count": 0, "shown": []}, "subject": "", "strangers": {"count": 0, "shown": []},
    "reduced": {"count": 0, "shown": []}})");
}

/// Returns one line per finding, such as "error E0612 /data: …".
std::vector<std::string> findings(const Json& survey, const SurveyTolerance& tolerance = {}) {
  std::vector<std::string> lines;
  for (const Diagnostic& one : data_survey_findings(survey, tolerance))
    lines.push_back((one.severity == Severity::kError ? "error " : "warning ") + name(one.code) +
                    " " + one.pointer + ": " + one.message);
  return lines;
}

TEST(DataSurvey, TableHasAColumnForEachPart) {
  EXPECT_EQ(data_survey_text(clean_survey()),
            "data: 5 images, 4.0 KiB; widths 10 to 30, median 20; heights 5 to 7, median 6\n\n"
            "class  train  test\n"
            "No DR      1     0\n"
            "PDR        3     1\n"
            "all        4     1\n");
  EXPECT_THAT(findings(clean_survey()), IsEmpty());
}

TEST(DataSurvey, PatientsAndNamesWithoutAPatientAreCounted) {
  Json survey = clean_survey();
  survey["patients"] = 2;
  EXPECT_THAT(data_survey_text(survey), testing::HasSubstr("; 2 patients\n"));
  survey["without_patient"] = 1;
  EXPECT_THAT(data_survey_text(survey),
              testing::HasSubstr("; 2 patients; 1 name without a patient\n"));
  survey["patients"] = 0;
  survey["without_patient"] = 5;
  EXPECT_THAT(data_survey_text(survey),
              testing::HasSubstr("median 6; 5 names without a patient\n"));
}

TEST(DataSurvey, CopiesInTwoPartsAreAnErrorUnlessTheRecipeHandlesThem) {
  Json survey = clean_survey();
  survey["identical"] =
      Json::parse(R"({"count": 3, "across_parts": 1, "several_classes": 1, "shown": [
      [{"file": "a.png", "part": "train", "class": 0}, {"file": "b.png", "part": "test", "class": 1}],
      [{"file": "c.png", "part": "train", "class": 0}, {"file": "d.png", "part": "train", "class": 0}]]})");
  const std::string
      across =
          "E0612 /data: 1 image is in more than one part, byte for byte: 'a.png' (train) = "
          "'b.png' (test)",
      within =
          "warning E0612 /data: 2 images appear more than once in one part, byte for byte: 'c.png' "
          "= 'd.png' and 1 more",
      several =
          "warning E0612 /data: 1 image that appears more than once, byte for byte, has more than "
          "one class: 'a.png' (train) = 'b.png' (test)";
  EXPECT_THAT(findings(survey), ElementsAre("error " + across, within, several));
  EXPECT_THAT(findings(survey, {.copies = true}),
              ElementsAre("warning " + across, within, several));
}

TEST(DataSurvey, UnreadableImagesAreListedUpToTen) {
  Json survey = clean_survey();
  survey["unreadable"]["count"] = 12;
  for (int i = 0; i < 12; ++i)
    survey["unreadable"]["shown"].push_back(
        {{"file", std::to_string(i) + ".png"}, {"part", "train"}, {"class", 0}, {"why", "broken"}});
  const std::string text =
      "E0604 /data: 12 images cannot be read: '0.png' (broken), '1.png' (broken), '2.png' "
      "(broken), '3.png' (broken), '4.png' (broken), '5.png' (broken), '6.png' (broken), '7.png' "
      "(broken), '8.png' (broken), '9.png' (broken) and 2 more";
  EXPECT_THAT(findings(survey), ElementsAre("error " + text));
  EXPECT_THAT(findings(survey, {.unreadable = true}), ElementsAre("warning " + text));
}

TEST(DataSurvey, SuspiciousImagesCauseWarnings) {
  Json survey = clean_survey();
  survey["alike"] = Json::parse(R"({"count": 1, "across_parts": 1, "several_classes": 0, "shown": [
      [{"file": "a.png", "part": "train", "class": 0}, {"file": "b.jpg", "part": "test", "class": 0}]]})");
  survey["shared_patients"] = {{"count", 2}, {"shown", {"17", "204"}}};
  survey["subject"] = "a photograph of a retina";
  survey["strangers"] = {{"count", 1},
                         {"shown", {{{"file", "cat.png"}, {"part", "train"}, {"class", 0}}}}};
  survey["reduced"] = {{"count", 2},
                       {"shown",
                        {{{"file", "a.png"}, {"part", "train"}, {"class", 0}},
                         {{"file", "x.png"}, {"part", "train"}, {"class", 0}}}}};
  EXPECT_THAT(
      findings(survey),
      ElementsAre(
          "warning E0612 /data: 1 image is in more than one part, visually identical: 'a.png' "
          "(train) ~ 'b.jpg' (test)",
          "warning E0612 /data: images of 2 patients are in more than one part: 17, 204",
          "warning E0612 /data: 1 image does not look like a photograph of a retina: 'cat.png'",
          "warning E0609 /data: 2 images have 16 bits per channel, of which the lower 8 are "
          "dropped: 'a.png', 'x.png'"));
}

}  // namespace
}  // namespace runner
