#include "runner/shared/stage/config_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace runner {
namespace {

enum class Color { kNone, kRed, kBlue };

struct Read {
  Color color;
  Diagnostics errors;
};

Read read_color(const char* json) {
  const Value config = from_json(nlohmann::ordered_json::parse(json));
  ConfigReader reader(config, "/paint");
  const auto color = choice<Color>(reader, "color", {{"red", Color::kRed}, {"blue", Color::kBlue}});
  return {color, reader.finish()};
}

TEST(Choice, WordSelectsItsEntry) {
  const Read blue = read_color(R"({"color": "blue"})");
  EXPECT_EQ(blue.color, Color::kBlue);
  EXPECT_TRUE(blue.errors.empty());
}

TEST(Choice, WordOutsideTheTableIsAnInternalError) {
  const Read green = read_color(R"({"color": "green"})");
  EXPECT_EQ(green.color, Color::kNone);
  ASSERT_EQ(green.errors.size(), 1);
  EXPECT_EQ(green.errors[0].code, ErrorCode::kInternal);
  EXPECT_EQ(green.errors[0].pointer, "/paint/color");
  EXPECT_EQ(green.errors[0].message,
            "'color' may be 'green' according to its schema, but no code handles it");
}

TEST(Choice, WrongTypeOrMissingKeyIsReportedOnce) {
  for (const char* json : {R"({"color": 3})", "{}"}) {
    const Read none = read_color(json);
    EXPECT_EQ(none.color, Color::kNone);
    ASSERT_EQ(none.errors.size(), 1) << json;
    EXPECT_NE(none.errors[0].code, ErrorCode::kInternal);
  }
}

TEST(Choice, UnknownWordGivesNoFunction) {
  using ReadSize = std::int64_t (*)(ConfigReader&);
  const ReadSize read_size = [](ConfigReader& reader) {
    std::int64_t size = 0;
    reader.read("size", size);
    return size;
  };
  const Value config =
      from_json(nlohmann::ordered_json::parse(R"({"kind": "sized", "size": 7, "other": "vast"})"));
  ConfigReader reader(config, "");
  const auto known = choice<ReadSize>(reader, "kind", {{"sized", read_size}});
  ASSERT_TRUE(known);
  EXPECT_EQ(known(reader), 7);
  EXPECT_FALSE(choice<ReadSize>(reader, "other", {{"sized", read_size}}));
}

TEST(ReadOrAuto, AutoMeansNoValueAndUnknownWordsAreErrors) {
  const Value config =
      from_json(nlohmann::ordered_json::parse(R"({"size": 7, "depth": "auto", "width": "wide"})"));
  ConfigReader reader(config, "");
  std::optional<std::int64_t> size, depth = 3, width;
  read_or_auto(reader, "size", size);
  read_or_auto(reader, "depth", depth);
  read_or_auto(reader, "width", width);
  EXPECT_EQ(size, 7);
  EXPECT_EQ(depth, std::nullopt);
  const Diagnostics errors = reader.finish();
  ASSERT_EQ(errors.size(), 1);
  EXPECT_EQ(errors[0].pointer, "/width");
}

}  // namespace
}  // namespace runner
