#include "runner/shared/stage/config_reader.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace runner {
namespace {

using testing::ElementsAre;

Value parse(const char* json) { return from_json(nlohmann::ordered_json::parse(json)); }

std::vector<std::string> lines(const Diagnostics& errors) {
  std::vector<std::string> result;
  for (const Diagnostic& error : errors)
    result.push_back(name(error.code) + " " + error.pointer + ": " + error.message);
  return result;
}

TEST(ConfigReader, ReadsEveryType) {
  const Value config =
      parse(R"({"b": true, "i": 3, "d": 0.5, "s": "x", "is": [1, 2], "ds": [1, 0.5], "ss": ["a"],
                                 "none": null, "some": 7, "value": {"k": 1}})");
  ConfigReader reader(config, "/train");
  bool b = false;
  std::int64_t i = 0;
  double d = 0;
  std::string s;
  std::vector<std::int64_t> is;
  std::vector<double> ds;
  std::vector<std::string> ss;
  std::optional<std::int64_t> none = 1, some;
  Value value;
  reader.read("b", b);
  reader.read("i", i);
  reader.read("d", d);
  reader.read("s", s);
  reader.read("is", is);
  reader.read("ds", ds);
  reader.read("ss", ss);
  reader.read("none", none);
  reader.read("some", some);
  reader.read("value", value);
  EXPECT_THAT(lines(reader.finish()), ElementsAre());
  EXPECT_TRUE(b);
  EXPECT_EQ(i, 3);
  EXPECT_EQ(d, 0.5);
  EXPECT_EQ(s, "x");
  EXPECT_THAT(is, ElementsAre(1, 2));
  EXPECT_THAT(ds, ElementsAre(1, 0.5));
  EXPECT_THAT(ss, ElementsAre("a"));
  EXPECT_EQ(none, std::nullopt);
  EXPECT_EQ(some, 7);
  EXPECT_NE(value.find("k"), nullptr);
}

TEST(ConfigReader, WrongTypesAndMissingKeysAreAllReportedAndLeaveFieldsUnchanged) {
  const Value config = parse(R"({"epochs": "three", "rates": [1, "x"], "limit": true})");
  ConfigReader reader(config, "/train");
  std::int64_t epochs = 5, steps = 6;
  std::vector<double> rates = {9};
  std::optional<double> limit = 8;
  reader.read("epochs", epochs);
  reader.read("rates", rates);
  reader.read("limit", limit);
  reader.read("steps", steps);
  EXPECT_THAT(lines(reader.finish()),
              ElementsAre("E0302 /train/epochs: 'epochs' must be an integer, not \"three\"",
                          "E0302 /train/rates: 'rates' must be a list of numbers, not a list of 2",
                          "E0302 /train/limit: 'limit' must be a number or null, not true",
                          "E0305 /train/steps: missing key 'steps'"));
  EXPECT_EQ(epochs, 5);
  EXPECT_THAT(rates, ElementsAre(9));
  EXPECT_EQ(limit, 8);
  EXPECT_EQ(steps, 6);
}

TEST(ConfigReader, ListOfMappingsIsReadItemByItem) {
  const Value config =
      parse(R"({"groups": [{"rate": 1}, {"rate": "x", "more": 2}], "none": [], "bad": [{}, 3]})");
  ConfigReader reader(config, "/train");
  std::vector<double> rates;
  for (ConfigReader* const group : reader.sections("groups"))
    group->read("rate", rates.emplace_back());
  EXPECT_THAT(rates, ElementsAre(1, 0));
  EXPECT_TRUE(reader.sections("none").empty());
  EXPECT_TRUE(reader.sections("bad").empty());
  EXPECT_TRUE(reader.sections("absent").empty());
  EXPECT_THAT(lines(reader.finish()),
              ElementsAre("E0302 /train/bad: 'bad' must be a list of mappings, not a list of 2",
                          "E0305 /train/absent: missing key 'absent'",
                          "E0302 /train/groups/1/rate: 'rate' must be a number, not \"x\"",
                          "E0315 /train/groups/1/more: nothing reads 'more'"));
}

TEST(ConfigReader, UnreadKeysAreErrorsButCommonOnesAreNot) {
  const Value config = parse(R"({"kind": "k", "name": "n", "inputs": {}, "foreach": {}, "bogus": 1,
                                 "optimizer": {"kind": "sgd", "rate": 1}})");
  ConfigReader reader(config, "/train");
  std::int64_t rate = 0;
  reader.section("optimizer").read("rate", rate);
  EXPECT_THAT(lines(reader.finish()),
              ElementsAre("E0315 /train/bogus: nothing reads 'bogus'",
                          "E0315 /train/optimizer/kind: nothing reads 'kind'"));
}

TEST(ConfigReader, SectionOfAnotherTypeIsAnErrorAndReadsAsEmpty) {
  const Value config = parse(R"({"optimizer": 3})");
  ConfigReader reader(config, "/train");
  std::int64_t rate = 4;
  reader.section("optimizer").read("rate", rate);
  EXPECT_THAT(lines(reader.finish()),
              ElementsAre("E0302 /train/optimizer: 'optimizer' must be a mapping, not 3",
                          "E0305 /train/optimizer/rate: missing key 'rate'"));
  EXPECT_EQ(rate, 4);
}

TEST(ConfigReader, SectionReadTwiceIsTheSame) {
  const Value config = parse(R"({"optimizer": {"a": 1, "b": 2}})");
  ConfigReader reader(config, "");
  std::int64_t a = 0, b = 0;
  reader.section("optimizer").read("a", a);
  reader.section("optimizer").read("b", b);
  EXPECT_THAT(lines(reader.finish()), ElementsAre());
}

TEST(ConfigReader, IntegersAndNumbersConvertAsInJsonSchema) {
  const Value config = parse(
      R"({"whole": 3.0, "half": 2.5, "huge": 1e19, "integer": 4, "nan": "nan", "inf": "-inf"})");
  ConfigReader reader(config, "");
  std::int64_t whole = 0, half = 0, huge = 0;
  double integer = 0, nan = 0, inf = 0;
  reader.read("whole", whole);
  reader.read("half", half);
  reader.read("huge", huge);
  reader.read("integer", integer);
  reader.read("nan", nan);
  reader.read("inf", inf);
  EXPECT_THAT(lines(reader.finish()),
              ElementsAre("E0302 /half: 'half' must be an integer, not 2.5",
                          "E0302 /huge: 'huge' must be an integer, not 1e+19"));
  EXPECT_EQ(whole, 3);
  EXPECT_EQ(integer, 4);
  EXPECT_TRUE(std::isnan(nan));
  EXPECT_EQ(inf, -INFINITY);
}

TEST(ConfigReader, CallerErrorPointsAtItsKey) {
  Sources sources;
  const auto& text = sources.add("a.yaml", "root: x");
  const Value config{Value::Map{{"root", {&text, 1, 1}, {std::string("x"), {&text, 1, 7}}}},
                     {&text, 1, 1}};
  ConfigReader reader(config, "/data");
  std::string root;
  reader.read("root", root);
  reader.fail("root", ErrorCode::kMissingFolder, "no folder 'x'", "make it");
  const Diagnostics errors = reader.finish();
  EXPECT_THAT(lines(errors), ElementsAre("E0601 /data/root: no folder 'x'"));
  EXPECT_EQ(errors.at(0).where.column, 7);
  EXPECT_EQ(errors.at(0).help, "make it");
}

}  // namespace
}  // namespace runner
