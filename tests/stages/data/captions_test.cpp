#include "stages/data/captions.h"

#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/shared/value/value.h"

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

/// "E0304 /data/caption: message | help" of each error.
std::vector<std::string> refusals(const std::string& json, const std::vector<std::string>& fields) {
  const runner::Value options = runner::from_json(nlohmann::ordered_json::parse(json));
  runner::ConfigReader reader(options, "/data");
  read_captions(reader, fields);
  std::vector<std::string> lines;
  for (const runner::Diagnostic& error : reader.finish())
    lines.push_back(runner::name(error.code) + " " + error.pointer + ": " + error.message + " | " +
                    error.help);
  return lines;
}

TEST(CaptionTemplate, FillsItsFieldsInTheOrderOfTheText) {
  const CaptionTemplate one("a {model} by {make}, a {make}");
  EXPECT_THAT(one.fields(), ElementsAre("model", "make", "make"));
  EXPECT_EQ(one.filled(std::vector<std::string_view>{"TT", "Audi", "Audi"}),
            "a TT by Audi, a Audi");
}

TEST(CaptionTemplate, DoubledBracesAreBraces) {
  const CaptionTemplate one("{{{make}}} {{}}");
  EXPECT_THAT(one.fields(), ElementsAre("make"));
  EXPECT_EQ(one.filled(std::vector<std::string_view>{"Audi"}), "{Audi} {}");
}

TEST(CaptionTemplate, WithoutFieldsItIsItsText) {
  EXPECT_EQ(CaptionTemplate("a car").filled({}), "a car");
}

TEST(CaptionTemplate, ABraceAloneIsRefused) {
  EXPECT_EQ(problem("a {make"), "it has a brace that is not closed");
  EXPECT_EQ(problem("a {ma{ke}"), "it has a brace that is not closed");
  EXPECT_EQ(problem("a {"), "it has a brace that is not closed");
  EXPECT_EQ(problem("a } car"), "it closes a brace that is not open");
  EXPECT_EQ(problem("a {} car"), "it has braces without the name of a field");
}

TEST(Captions, AreThereOnceInTheOrderOfTemplatesAndRows) {
  const std::vector<CaptionTemplate> templates = {
      CaptionTemplate("{make} {model}"), CaptionTemplate("{make}"), CaptionTemplate("a car")};
  const Captions captions = compose_captions(templates, cars());
  EXPECT_THAT(captions.texts, ElementsAre("Audi A4", "BMW M3", "Audi TT", "Audi", "BMW", "a car"));
  EXPECT_THAT(captions.of,
              ElementsAre(ElementsAre(0, 3, 5), ElementsAre(1, 4, 5), ElementsAre(2, 3, 5)));
}

TEST(Captions, OfNoTemplateThereAreNone) {
  const Captions captions = compose_captions({}, cars());
  EXPECT_THAT(captions.texts, IsEmpty());
  EXPECT_THAT(captions.of, IsEmpty());
}

TEST(Captions, AreTextWhateverAFolderIsCalled) {
  const std::vector<CaptionTemplate> templates = {CaptionTemplate("a {name}")};
  const Captions captions = compose_captions(templates, {{"name"}, {{"b\xff\n"}}});
  EXPECT_THAT(captions.texts, ElementsAre("a b? "));
}

TEST(ReadCaptions, TakesNoneOneOrSeveral) {
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

TEST(ReadCaptions, UnknownFieldIsRefusedWithThoseThatAreThere) {
  EXPECT_THAT(
      refusals(R"({"caption": ["a {name}", "a {maker} {modle} of {year}, a {maker}"]})",
               {"make", "model"}),
      ElementsAre(
          "E0304 /data/caption: the caption 'a {name}' names {name}, but there is no such field | "
          "did you mean '{make}'? fields are {make}, {model}; a brace itself is {{ or }}",
          "E0304 /data/caption: the caption 'a {maker} {modle} of {year}, a {maker}' names "
          "{maker}, {modle}, {year}, but there is no such field | did you mean '{make}'? fields "
          "are {make}, {model}; a brace itself is {{ or }}"));
}

TEST(ReadCaptions, BrokenBracesAreRefused) {
  EXPECT_THAT(refusals(R"({"caption": "a {name"})", {"name"}),
              ElementsAre("E0304 /data/caption: the caption 'a {name' cannot be read: it has a "
                          "brace that is not closed "
                          "| write a field as {name}, and a brace itself as {{ or }}"));
}

}  // namespace
}  // namespace stages
