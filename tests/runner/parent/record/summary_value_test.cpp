#include "runner/parent/record/summary_value.h"

#include <bit>

#include <gmock/gmock.h>

#include "tests/support/event_file_reader.h"

namespace runner {
namespace {

using testing::ElementsAre;

/// The name of the plugin that reads a value.
std::string plugin_of(const ProtobufFields& value) { return value.message(9).message(1).at(1); }

TEST(SummaryValue, TextIsAScalarString) {
  const ProtobufFields value(text_value("recipe", "# a").bytes());
  EXPECT_EQ(plugin_of(value), "text");
  EXPECT_EQ(value.message(8).number(1), 7u) << "DT_STRING";
  EXPECT_EQ(value.message(8).at(2), "") << "without a dimension";
  EXPECT_EQ(value.message(8).at(8), "# a");
}

TEST(SummaryValue, ImageHasItsSizeAndBytes) {
  // The bytes are the start of an image, an application segment of two bytes, and a frame header of
  // 3 rows and 5 columns.
  using namespace std::string_literals;
  const std::string jpeg = "\xFF\xD8\xFF\xE0\x00\x02\xFF\xC0\x00\x0B\x08\x00\x03\x00\x05\x01"s;
  const ProtobufFields value(image_value("wrong/1", jpeg, "*a*").bytes());
  EXPECT_EQ(plugin_of(value), "images");
  EXPECT_EQ(value.message(9).at(3), "*a*");
  EXPECT_THAT(value.message(8).all(8), ElementsAre("5", "3", jpeg));
  const ProtobufFields damaged(image_value("wrong/1", "\xFF\xD8\xFF", "").bytes());
  EXPECT_THAT(damaged.message(8).all(8), ElementsAre("0", "0", "\xFF\xD8\xFF"));
}

TEST(SummaryValue, HistogramHasARowForEachBucket) {
  const std::vector<HistogramBucket> buckets = {{-1, -0.5, 2}, {-0.5, 0, 1}};
  const ProtobufFields tensor =
      ProtobufFields(histogram_value("gradients/w", buckets).bytes()).message(8);
  std::vector<std::uint64_t> sizes;
  for (const std::string& size : tensor.message(2).all(2))
    sizes.push_back(ProtobufFields(size).number(1));
  EXPECT_THAT(sizes, ElementsAre(2, 3));
  std::vector<double> numbers;
  for (std::size_t i = 0; i < tensor.at(4).size(); i += 8)
    numbers.push_back(std::bit_cast<double>(little_endian(tensor.at(4).substr(i, 8))));
  EXPECT_THAT(numbers, ElementsAre(-1, -0.5, 2, -0.5, 0, 1));
}

TEST(SummaryValue, CodeCannotEndItsBlock) {
  EXPECT_EQ(markdown_code("a: |\n```\n\nb"), "    a: |\n    ```\n    \n    b\n");
  EXPECT_EQ(markdown_code(""), "");
}

}  // namespace
}  // namespace runner
