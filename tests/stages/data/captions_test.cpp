#include "stages/data/captions.h"

#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/shared/value/value.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const ImageFacts& cars() {
  static const ImageFacts kCars = {{"make", "model"},
                                   {{"Audi", "A4"}, {"BMW", "M3"}, {"Audi", "TT"}}};
  return kCars;
}

std::string problem(const std::string& text) {
  try {
    CaptionTemplate one(text);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

runner::Diagnostics refusals(const std::string& json, const std::vector<std::string>& fields) {
  const runner::Value options = runner::from_json(nlohmann::ordered_json::parse(json));
  runner::ConfigReader reader(options, "/data");
  read_captions(reader, fields);
  return reader.finish();
}

TEST(CaptionTemplate, FillsItsFieldsInTemplateOrder) {
  const CaptionTemplate one("a {model} by {make}, a {make}");
  EXPECT_THAT(one.fields(), ElementsAre("model", "make", "make"));
  EXPECT_EQ(one.filled(std::vector<std::string_view>{"TT", "Audi", "Audi"}),
            "a TT by Audi, a Audi");
}

TEST(CaptionTemplate, DoubledBracesAreLiteral) {
  const CaptionTemplate one("{{{make}}} {{}}");
  EXPECT_THAT(one.fields(), ElementsAre("make"));
  EXPECT_EQ(one.filled(std::vector<std::string_view>{"Audi"}), "{Audi} {}");
}

TEST(CaptionTemplate, TemplateWithoutFieldsIsUsedAsIs) {
  EXPECT_EQ(CaptionTemplate("a car").filled({}), "a car");
}

TEST(CaptionTemplate, SingleBraceIsRejected) {
  EXPECT_EQ(problem("a {make"), "it has a brace that is never closed");
  EXPECT_EQ(problem("a {ma{ke}"), "it has a brace that is never closed");
  EXPECT_EQ(problem("a {"), "it has a brace that is never closed");
  EXPECT_EQ(problem("a } car"), "it has a closing brace without an opening one");
  EXPECT_EQ(problem("a {} car"), "it has braces without a field name");
}

TEST(Captions, AreUniqueAndFollowTheOrderOfTemplatesAndRows) {
  const std::vector<CaptionTemplate> templates = {
      CaptionTemplate("{make} {model}"), CaptionTemplate("{make}"), CaptionTemplate("a car")};
  const Captions captions = compose_captions(templates, cars());
  EXPECT_THAT(captions.texts, ElementsAre("Audi A4", "BMW M3", "Audi TT", "Audi", "BMW", "a car"));
  EXPECT_THAT(captions.of,
              ElementsAre(ElementsAre(0, 3, 5), ElementsAre(1, 4, 5), ElementsAre(2, 3, 5)));
}

TEST(Captions, AreEmptyWithoutTemplates) {
  const Captions captions = compose_captions({}, cars());
  EXPECT_THAT(captions.texts, IsEmpty());
  EXPECT_THAT(captions.of, IsEmpty());
}

TEST(Captions, ArePrintableForAnyFolderName) {
  const std::vector<CaptionTemplate> templates = {CaptionTemplate("a {name}")};
  const Captions captions = compose_captions(templates, {{"name"}, {{"b\xff\n"}}});
  EXPECT_THAT(captions.texts, ElementsAre("a b? "));
}

TEST(ReadCaptions, AcceptsNoneOneOrSeveral) {
  const auto count = [](const std::string& json) {
    const runner::Value options = runner::from_json(nlohmann::ordered_json::parse(json));
    runner::ConfigReader reader(options, "/data");
    const std::size_t found = read_captions(reader, {"name"}).size();
    EXPECT_THAT(reader.finish(), IsEmpty());
    return found;
  };
  EXPECT_EQ(count(R"({"caption": null})"), 0u);
  EXPECT_EQ(count(R"({"caption": "a {name}"})"), 1u);
  EXPECT_EQ(count(R"({"caption": ["a {name}", "the {name}"]})"), 2u);
}

TEST(ReadCaptions, UnknownFieldIsRejectedAndKnownOnesAreListed) {
  EXPECT_ALL_REFUSED(
      refusals(R"({"caption": ["a {name}", "a {maker} {modle} of {year}, a {maker}"]})",
               {"make", "model"}),
      {kNotAllowedValue, "/data/caption", {"'a {name}'", "'{make}'", "{make}, {model}"}},
      {kNotAllowedValue, "/data/caption", {"{maker}, {modle}, {year}", "'{make}'"}});
}

TEST(ReadCaptions, UnmatchedBracesAreRejected) {
  EXPECT_REFUSED(refusals(R"({"caption": "a {name"})", {"name"}), kNotAllowedValue, "/data/caption",
                 "'a {name'");
}

}  // namespace
}  // namespace stages
