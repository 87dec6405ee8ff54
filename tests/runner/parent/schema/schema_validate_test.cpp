#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/parent/schema/schema_node.h"
#include "tests/support/schema_texts.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// The errors of one value according to one schema.
std::vector<std::string> checked(std::string_view schema, Value value) {
  const SchemaFile file{"a.schema.json", schema};
  const auto loaded = SchemaSet::load({&file, 1});
  if (!loaded) return said(loaded);
  return told(loaded->validate(value, "a.schema.json"));
}

std::vector<std::string> checked(std::string_view schema, const std::string& json) {
  return checked(schema, written(json));
}

TEST(SchemaValidate, WrongTypeReportsTheFoundValue) {
  EXPECT_THAT(checked(R"({"type": "integer"})", R"("ten")"),
              ElementsAre("E0302 : expected an integer, got the string \"ten\""));
  EXPECT_THAT(checked(R"({"type": "integer"})", "1.5"),
              ElementsAre("E0302 : expected an integer, got 1.5"));
  EXPECT_THAT(checked(R"({"type": "array"})", "{}"),
              ElementsAre("E0302 : expected a list, got an empty mapping"));
  EXPECT_THAT(checked(R"({"type": ["integer", "null"]})", "[1]"),
              ElementsAre("E0302 : expected an integer, or null, got a list of 1"));
}

TEST(SchemaValidate, OversizedIntegerIsNotReportedAsAString) {
  EXPECT_THAT(checked(R"({"type": "integer", "minimum": 0})", "12345678901234567890"),
              ElementsAre("E0302 : expected an integer, got 12345678901234567890, which does not "
                          "fit in a signed 64-bit integer"));
}

TEST(SchemaValidate, WrongTypeSuggestsQuotes) {
  EXPECT_THAT(
      checked(R"({"type": "integer"})", R"("10")"),
      ElementsAre(
          "E0302 : expected an integer, got the string \"10\" (write it without quotes: 10)"));
  EXPECT_THAT(checked(R"({"type": "integer"})", R"("010")"),
              ElementsAre("E0302 : expected an integer, got the string \"010\" (write it without "
                          "leading zeros: 10)"));
  EXPECT_THAT(checked(R"({"type": "integer"})", R"("000")"),
              ElementsAre("E0302 : expected an integer, got the string \"000\" (write it without "
                          "leading zeros: 0)"));
  EXPECT_THAT(checked(R"({"type": "boolean"})", R"("true")"),
              ElementsAre("E0302 : expected true or false, got the string \"true\" (write it "
                          "without quotes: true)"));
  EXPECT_THAT(checked(R"({"type": "string"})", "10"),
              ElementsAre("E0302 : expected a string, got 10 (write it in quotes: \"10\")"));
}

TEST(SchemaValidate, NumberOutOfRangeIsReportedWithRangeAndUnit) {
  EXPECT_THAT(checked(R"({"type": "number", "minimum": 1})", "0"),
              ElementsAre("E0303 : expected a number of at least 1, got 0"));
  EXPECT_THAT(
      checked(R"({"type": "integer", "minimum": 1, "maximum": 8, "x-unit": "epochs"})", "9"),
      ElementsAre("E0303 : expected an integer from 1 to 8 (epochs), got 9"));
  EXPECT_THAT(checked(R"({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1})", "1"),
              ElementsAre("E0303 : expected a number above 0 and below 1, got 1"));
  EXPECT_THAT(checked(R"({"type": "number", "minimum": 0, "exclusiveMaximum": 1})", "1"),
              ElementsAre("E0303 : expected a number of at least 0 and below 1, got 1"));
  EXPECT_THAT(checked(R"({"multipleOf": 8})", "12"),
              ElementsAre("E0303 : expected a multiple of 8, got 12"));
}

TEST(SchemaValidate, NonFiniteNumbersAreRejected) {
  const double nan = std::numeric_limits<double>::quiet_NaN(),
               infinity = std::numeric_limits<double>::infinity();
  EXPECT_THAT(checked(R"({"type": "number"})", Value{nan, {}}),
              ElementsAre("E0303 : expected a finite number, got nan"));
  EXPECT_THAT(checked(R"({"type": "number", "minimum": 1})", Value{infinity, {}}),
              ElementsAre("E0303 : expected a finite number, got inf"));
  EXPECT_THAT(checked(R"({"minimum": 1})", Value{nan, {}}),
              ElementsAre("E0303 : expected a number of at least 1, got nan"));
}

TEST(SchemaValidate, IntegerBeyond64BitsIsRejected) {
  EXPECT_THAT(checked(R"({"type": "integer"})", "1e300"),
              ElementsAre("E0303 : expected an integer of at most 64 bits, got 1e+300"));
  EXPECT_THAT(checked(R"({"type": "integer"})", "9223372036854775808.0"), testing::SizeIs(1));
  EXPECT_THAT(checked(R"({"type": "integer"})", "-9223372036854775808.0"), IsEmpty());
}

TEST(SchemaValidate, BoundsOfLargeIntegersAreExact) {
  EXPECT_THAT(checked(R"({"maximum": 9007199254740992})", "9007199254740993"), testing::SizeIs(1));
  EXPECT_THAT(checked(R"({"exclusiveMinimum": 9007199254740992})", "9007199254740993"), IsEmpty());
}

TEST(SchemaValidate, DisallowedValueSuggestsTheNearest) {
  EXPECT_THAT(checked(R"({"enum": ["sgd", "adam", "adamw"]})", R"("sdg")"),
              ElementsAre("E0304 : 'sdg' is not one of: sgd, adam, adamw (did you mean 'sgd'?)"));
  EXPECT_THAT(checked(R"({"enum": [1, 2, null]})", "3"),
              ElementsAre("E0304 : 3 is not one of: 1, 2, null"));
  EXPECT_THAT(checked(R"({"const": 1})", "2"), ElementsAre("E0304 : expected 1, got 2"));
  EXPECT_THAT(checked(R"({"const": 1})", "1.0"), IsEmpty());
}

TEST(SchemaValidate, UnknownKeySuggestsTheNearestOrListsKnownKeys) {
  constexpr auto kSchema =
      R"({"properties": {"epochs": {}, "seed": {}}, "additionalProperties": false})";
  EXPECT_THAT(checked(kSchema, R"({"epoch": 1, "wholly": 2})"),
              ElementsAre("E0301 /epoch: unknown key 'epoch' (did you mean 'epochs'?)",
                          "E0301 /wholly: unknown key 'wholly' (known keys: epochs, seed)"));
  EXPECT_THAT(checked(R"({"additionalProperties": false})", R"({"a": 1})"),
              ElementsAre("E0301 /a: unknown key 'a' (it takes no keys)"));
}

TEST(SchemaValidate, MissingKeyIsExplained) {
  EXPECT_THAT(
      checked(
          R"({"required": ["root", "b"], "properties": {"root": {"description": "The folder."}}})",
          "{}"),
      ElementsAre("E0305 /root: missing key 'root' (The folder.)", "E0305 /b: missing key 'b'"));
}

TEST(SchemaValidate, PatternIsExplainedByTheDescription) {
  EXPECT_THAT(checked(R"({"pattern": "^[a-z]+$", "description": "Small letters."})", R"("A")"),
              ElementsAre("E0307 : \"A\" does not have the required form (Small letters.)"));
  EXPECT_THAT(
      checked(R"({"pattern": "^[a-z]+$"})", R"("A")"),
      ElementsAre("E0307 : \"A\" does not have the required form (it must match ^[a-z]+$)"));
}

TEST(SchemaValidate, LengthsCountCharacters) {
  EXPECT_THAT(checked(R"({"maxLength": 3})", R"("öäü")"), IsEmpty());
  EXPECT_THAT(checked(R"({"maxLength": 3})", R"("öäü€")"),
              ElementsAre("E0308 : expected at most 3 characters, got 4"));
  EXPECT_THAT(checked(R"({"minLength": 1})", R"("")"),
              ElementsAre("E0308 : expected at least 1 character, got an empty string"));
}

TEST(SchemaValidate, SizesOfListsAndMappingsAreChecked) {
  EXPECT_THAT(checked(R"({"minItems": 2, "maxItems": 2})", "[1]"),
              ElementsAre("E0308 : expected 2 items, got 1"));
  EXPECT_THAT(checked(R"({"minItems": 1})", "[]"),
              ElementsAre("E0308 : expected at least 1 item, got an empty list"));
  EXPECT_THAT(checked(R"({"maxItems": 1})", "[1, 2]"),
              ElementsAre("E0308 : expected at most 1 item, got 2"));
  EXPECT_THAT(checked(R"({"minProperties": 1})", "{}"),
              ElementsAre("E0308 : expected at least 1 key, got an empty mapping"));
  EXPECT_THAT(checked(R"({"maxProperties": 0})", R"({"a": 1})"),
              ElementsAre("E0308 : expected at most 0 keys, got 1"));
}

TEST(SchemaValidate, RepeatedItemRefersToTheFirst) {
  SourceText source{"a.yaml", ""};
  const SchemaFile file{"a.schema.json", R"({"uniqueItems": true})"};
  const auto loaded = SchemaSet::load({&file, 1});
  Value value = written(R"([{"a": 1, "b": 2}, "1", 1, {"b": 2.0, "a": 1}])", source);
  const Diagnostics errors = loaded->validate(value, "a.schema.json");
  EXPECT_THAT(told(errors),
              ElementsAre("7:9 E0309 /3: the list contains the same item twice: a mapping"));
  ASSERT_EQ(errors[0].notes.size(), 1u);
  EXPECT_EQ(errors[0].notes[0].where.line, 2);
}

TEST(SchemaValidate, AlternativesAreListed) {
  constexpr auto kSchema =
      R"({"anyOf": [{"const": "auto"}, {"type": "integer", "minimum": 1}], "x-unit": "samples"})";
  EXPECT_THAT(
      checked(kSchema, R"("x")"),
      ElementsAre("E0310 : expected auto, or an integer of at least 1 (samples); got \"x\""));
  EXPECT_THAT(checked(kSchema, R"("atuo")"),
              ElementsAre("E0310 : expected auto, or an integer of at least 1 (samples); got "
                          "\"atuo\" (did you mean 'auto'?)"));
}

TEST(SchemaValidate, AlternativeOfTheSameTypeReportsItsOwnError) {
  constexpr auto kSchema =
      R"({"anyOf": [{"const": null}, {"type": "integer", "minimum": 1}], "x-unit": "samples"})";
  EXPECT_THAT(checked(kSchema, "0"),
              ElementsAre("E0303 : expected an integer of at least 1 (samples), got 0"));
  EXPECT_THAT(
      checked(R"({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})",
              R"(["a", 1])"),
      ElementsAre("E0302 /1: expected a string, got 1 (write it in quotes: \"1\")"));
}

TEST(SchemaValidate, KeysAreListedIfAMappingIsOneOfTheAlternatives) {
  const char* schema = R"({"oneOf": [{"type": "null"}, {"type": "object", "properties":
      {"magnitude": {"type": "integer"}, "layers": {"type": "integer"}}}]})";
  EXPECT_THAT(checked(schema, "9"),
              ElementsAre("E0310 : expected null, or a mapping; got 9 (write a mapping with these "
                          "keys: magnitude, layers; {} uses their default values)"));
  EXPECT_THAT(checked(R"({"oneOf": [{"type": "null"}, {"type": "object", "required": ["p"],
                      "properties": {"p": {"type": "number"}}}]})",
                      "0.5"),
              ElementsAre("E0310 : expected null, or a mapping; got 0.5 (write a mapping with "
                          "these keys: p)"));
}

TEST(SchemaValidate, MultipleMatchesOfOneOfAreRejected) {
  EXPECT_THAT(checked(R"({"oneOf": [{"type": "integer"}, {"minimum": 2}]})", "3"),
              ElementsAre("E0310 : 3 matches several of the allowed forms"));
  EXPECT_THAT(checked(R"({"oneOf": [{"type": "integer"}, {"minimum": 2}]})", "1"), IsEmpty());
}

TEST(SchemaValidate, ForbiddenValuesAndKeysAreRejected) {
  EXPECT_THAT(checked(R"({"not": {"const": 0}, "description": "Any but 0."})", "0"),
              ElementsAre("E0311 : 0 is not allowed here (Any but 0.)"));
  EXPECT_THAT(checked(R"({"properties": {"a": false}})", R"({"a": 1})"),
              ElementsAre("E0311 /a: key 'a' is not allowed here"));
}

TEST(SchemaValidate, MutuallyExclusiveOptionsAreReportedWithTheRule) {
  const char* schema =
      R"({"allOf": [{"description": "Give a or b.", "not": {"required": ["a", "b"]}}]})";
  EXPECT_THAT(checked(schema, R"({"a": 1, "b": 2})"),
              ElementsAre("E0314 : these options cannot be used together (Give a or b.)"));
  EXPECT_THAT(checked(schema, R"({"a": 1})"), IsEmpty());
}

TEST(SchemaValidate, InvalidKeyIsReported) {
  EXPECT_THAT(
      checked(R"({"propertyNames": {"pattern": "^[a-z]+$", "description": "Small letters."}})",
              R"({"A": 1})"),
      ElementsAre("E0312 /A: the key \"A\" does not have the required form (Small letters.)"));
}

TEST(SchemaValidate, SecretsAreNotShown) {
  Value secret{std::string("hunter2"), {}, "${oc.env:TOKEN}"};
  for (const char* schema :
       {R"({"enum": ["hunter", "b"]})", R"({"const": "hunter"})", R"({"type": "integer"})",
        R"({"pattern": "^x"})", R"({"anyOf": [{"const": "hunter"}, {"type": "integer"}]})",
        R"({"not": {"type": "string"}})"}) {
    const auto lines = checked(schema, secret);
    ASSERT_THAT(lines, testing::SizeIs(1)) << schema;
    EXPECT_THAT(lines[0], testing::Not(testing::HasSubstr("hunter2"))) << schema;
    EXPECT_THAT(lines[0], testing::Not(testing::HasSubstr("did you mean"))) << schema;
  }
}

TEST(SchemaValidate, ErrorsAreInSourceOrder) {
  SourceText source{"a.yaml", ""};
  const SchemaSet schemas = small_schemas();
  Value recipe = written(R"({
    "train": {"epochs": 0, "epoch": 1, "optimizer": {"kind": "sgd", "betas": 1, "learning_rate": 0}, "kind": "train.fit"},
    "seed": -1,
    "data": {"kind": "data.folder", "size": 1.5}})",
                         source);
  EXPECT_THAT(
      told(schemas.validate(recipe)),
      ElementsAre("1:9 E0305 /schema: missing key 'schema' (The version of the recipe language. "
                  "Add `schema: 1` at the top.)",
                  "3:9 E0303 /train/epochs: expected an integer of at least 1 (epochs), got 0",
                  "4:1 E0301 /train/epoch: unknown key 'epoch' (did you mean 'epochs'?)",
                  "7:1 E0301 /train/optimizer/betas: 'betas' has no effect here: it is an option "
                  "of adam (leave it out, or choose another kind)",
                  "8:9 E0303 /train/optimizer/learning_rate: expected a number above 0, got 0",
                  "10:9 E0303 /seed: expected an integer of at least 0, got -1",
                  "11:9 E0305 /data/root: missing key 'root' (The folder to read.)",
                  "13:9 E0302 /data/size: expected an integer, got 1.5"));
}

TEST(SchemaValidate, ErrorsInSeveralSourcesAreGroupedBySource) {
  SourceText first{"a.yaml", ""}, second{"override 1", ""};
  const SchemaFile file{"a.schema.json", R"({"additionalProperties": {"type": "null"}})"};
  const auto loaded = SchemaSet::load({&file, 1});
  Value value = written(R"({"a": 1, "b": 2, "c": 3})", first);
  (*value.map())[1].value.where = {&second, 1, 3};
  EXPECT_THAT(
      told(loaded->validate(value, "a.schema.json")),
      ElementsAre("2:9 E0302 /a: expected null, got 1", "4:9 E0302 /c: expected null, got 3",
                  "1:3 E0302 /b: expected null, got 2"));
}

TEST(SchemaValidate, TooDeepNestingIsRejected) {
  Value value = written("1");
  for (int i = 0; i < 150; ++i) value = Value{Value::List{value}, {}};
  const auto lines = checked(R"({"items": {"$ref": "#"}})", value);
  ASSERT_THAT(lines, testing::SizeIs(1));
  EXPECT_THAT(lines[0], testing::EndsWith("nested too deeply"));
}

TEST(SchemaValidate, LongWordsAreShortened) {
  const std::string longer(100'000, 'x');
  const auto lines = checked(R"({"enum": ["a", "b"]})", '"' + longer + '"');
  ASSERT_THAT(lines, testing::SizeIs(1));
  EXPECT_LT(lines[0].size(), 200u);
}

TEST(SchemaValidate, UnknownSchemaIsAnInternalError) {
  Value value;
  EXPECT_THAT(told(small_schemas().validate(value, "b.schema.json")),
              ElementsAre("E0901 : there is no schema 'b.schema.json'"));
}

TEST(SchemaValidate, DefinitionInAFileIsFound) {
  Value device = written(R"({"select": "cuda:x"})");
  EXPECT_THAT(told(small_schemas().validate(device, "common.schema.json#/definitions/device")),
              ElementsAre("E0307 /select: \"cuda:x\" does not have the required form (Write auto, "
                          "cpu, cuda or cuda:K.)"));
}

TEST(SchemaPattern, MatchesCharactersAnywhere) {
  EXPECT_TRUE(Pattern::compile("^.$")->matches("€"));
  EXPECT_TRUE(Pattern::compile("b")->matches("abc"));
  EXPECT_FALSE(Pattern::compile("^b$")->matches("a\nb"));
  EXPECT_FALSE(Pattern::compile("^b$")->matches("b\n"));
  EXPECT_FALSE(Pattern::compile("(").has_value());
  EXPECT_FALSE(Pattern::compile(R"((a)\1)").has_value());
  EXPECT_FALSE(Pattern::compile("a")->matches(std::string(Pattern::kMaxText + 1, 'a')));
}

TEST(SchemaPattern, NestedRepetitionDoesNotHang) {
  EXPECT_FALSE(Pattern::compile("^(a+)+$")->matches(std::string(Pattern::kMaxText - 1, 'a') + "b"));
}

TEST(SchemaPattern, LongExpressionsAreRejected) {
  EXPECT_TRUE(Pattern::compile(std::string(1000, 'a')));
  EXPECT_FALSE(Pattern::compile(std::string(1001, 'a')));
}

TEST(SchemaPattern, EachInvalidByteCountsAsOneCharacter) {
  EXPECT_EQ(character_count("a\xff\xc3z"), 4u);
  EXPECT_EQ(character_count("\xf0\x9f\x98\x80"), 1u);
  EXPECT_EQ(character_count("\xe2\x82"), 2u);
}

}  // namespace
}  // namespace runner
