#include "runner/parent/run/prediction_output.h"

#include <sstream>
#include <stdexcept>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

struct Written {
  std::string out, err;
  std::int64_t images = 0, failed = 0;
};

Written written(PredictionFormat format, std::initializer_list<const char*> items) {
  Written result;
  std::ostringstream err;
  PredictionOutput output(
      format, [&](std::string_view text) { result.out += text; }, err, /*color=*/false);
  for (const char* item : items) output.take(Json::parse(item));
  result.err = err.str();
  result.images = output.images();
  result.failed = static_cast<std::int64_t>(output.unreadable().size());
  return result;
}

const char* const kCat =
    R"({"file":"a, b.jpg","classes":[{"class":"cat","probability":0.75},{"class":"the \"dog\"","probability":0.2}]})";
const char* const kDog =
    R"({"file":"c.jpg","classes":[{"class":"dog","probability":1.0},{"class":"cat","probability":1e-09}]})";
const char* const kBroken =
    R"({"file":"d.jpg","code":"E0604","message":"image 'd.jpg': the file is empty"})";

TEST(PredictionOutput, CsvHasOneHeader) {
  const Written csv = written(PredictionFormat::kCsv, {kCat, kDog});
  EXPECT_EQ(csv.out,
            "file,class_1,probability_1,class_2,probability_2\n"
            "\"a, b.jpg\",cat,0.75,\"the \"\"dog\"\"\",0.2\n"
            "c.jpg,dog,1,cat,1e-09\n");
  EXPECT_EQ(csv.err, "");
  EXPECT_EQ(csv.images, 2);
}

TEST(PredictionOutput, LabelsComeBeforeTheMostLikelyClasses) {
  const char* const two =
      R"({"file":"a.jpg","labels":["cat","dog"],"classes":[{"class":"dog","probability":0.5}]})";
  const char* const none =
      R"({"file":"b.jpg","labels":[],"classes":[{"class":"cat","probability":0.125}]})";
  EXPECT_EQ(written(PredictionFormat::kCsv, {two, none}).out,
            "file,labels,class_1,probability_1\na.jpg,cat|dog,dog,0.5\nb.jpg,,cat,0.125\n");
  EXPECT_EQ(written(PredictionFormat::kJsonLines, {two}).out, std::string(two) + "\n");
}

TEST(PredictionOutput, EachTargetHasAColumn) {
  const char* const one = R"({"file":"a.jpg","values":{"age":41.5,"weight":70}})";
  EXPECT_EQ(written(PredictionFormat::kCsv, {one}).out, "file,age,weight\na.jpg,41.5,70\n");
  EXPECT_EQ(written(PredictionFormat::kJsonLines, {one}).out, std::string(one) + "\n");
  EXPECT_THROW(written(PredictionFormat::kCsv, {R"({"file":"a.jpg","values":{"age":"b"}})"}),
               std::runtime_error);
}

TEST(PredictionOutput, NumericOutputsAreNotClasses) {
  const char* const one = R"({"file":"a.jpg","outputs":[-1.5]})";
  const char* const two = R"({"file":"a.jpg","outputs":[-1.5,2]})";
  EXPECT_EQ(written(PredictionFormat::kCsv, {one}).out, "file,output\na.jpg,-1.5\n");
  EXPECT_EQ(written(PredictionFormat::kCsv, {two}).out, "file,output_0,output_1\na.jpg,-1.5,2\n");
  EXPECT_EQ(written(PredictionFormat::kJsonLines, {two}).out, std::string(two) + "\n");
  EXPECT_THROW(written(PredictionFormat::kCsv, {R"({"file":"a.jpg","outputs":["b"]})"}),
               std::runtime_error);
}

TEST(PredictionOutput, NamesCannotControlTheTerminal) {
  const char* const item =
      R"({"file":"\u001b[2J\u202egpj.jpg","classes":[{"class":"a\u009b\nb","probability":0.75}]})";
  EXPECT_EQ(written(PredictionFormat::kShownCsv, {item}).out,
            "file,class_1,probability_1\n [2J gpj.jpg,a  b,0.75\n");
  EXPECT_EQ(written(PredictionFormat::kCsv, {item}).out,
            "file,class_1,probability_1\n\x1b[2J\u202egpj.jpg,\"a\u009b\nb\",0.75\n");
  EXPECT_EQ(
      written(PredictionFormat::kJsonLines, {item}).out,
      std::string(
          R"({"file":"\u001b[2J\u202egpj.jpg","classes":[{"class":"a\u009b\nb","probability":0.75}]})") +
          "\n");
}

TEST(PredictionOutput, JsonHasOneLinePerImage) {
  EXPECT_EQ(written(PredictionFormat::kJsonLines, {kCat, kDog}).out,
            std::string(kCat) + "\n" + kDog + "\n");
}

TEST(PredictionOutput, UnreadableImagesAreReportedCountedAndLeftOut) {
  for (const auto format : {PredictionFormat::kCsv, PredictionFormat::kJsonLines}) {
    const Written result = written(format, {kBroken, kDog});
    EXPECT_EQ(result.err, format == PredictionFormat::kCsv
                              ? "error[E0604]: image 'd.jpg': the file is empty\n"
                              : "");
    EXPECT_EQ(result.out.find("d.jpg"), std::string::npos);
    EXPECT_EQ(result.images, 1);
    EXPECT_EQ(result.failed, 1);
  }
}

TEST(PredictionOutput, MalformedPredictionsAreRejected) {
  for (const char* item :
       {"[]", "{}", R"({"file":1})", R"({"file":"a"})", R"({"file":"a","classes":{}})",
        R"({"file":"a","classes":[{"class":"b"}]})", R"({"file":"a","classes":[1]})",
        R"({"code":"E9999","message":"m"})", R"({"code":"E0604"})"}) {
    EXPECT_THROW(written(PredictionFormat::kCsv, {item}), std::runtime_error) << item;
  }
}

}  // namespace
}  // namespace runner
