#include "runner/parent/record/tensorboard_log.h"

#include <bit>
#include <filesystem>
#include <map>

#include <gmock/gmock.h>

#include "tests/support/program.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// What a reader of event files finds.
struct ReadEvent {
  double time = 0;
  std::int64_t step = 0;
  std::string version = {}, tag = {};
  float value = 0;
  bool is_start = false;
  bool operator==(const ReadEvent&) const = default;
};

/// A message of Protocol Buffers: its fields by number. A number is 8 bytes, little-endian.
using Fields = std::map<std::uint64_t, std::string>;

std::uint64_t number(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;)
    value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

std::uint64_t varint(std::string_view& rest) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(rest.at(0));
    rest.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) return value;
  }
}

Fields fields_of(std::string_view rest) {
  Fields fields;
  while (!rest.empty()) {
    const std::uint64_t key = varint(rest);
    std::size_t size = key % 8 == 1 ? 8 : 4;
    if (key % 8 == 0) {
      const std::uint64_t value = varint(rest);
      for (int i = 0; i < 8; ++i) fields[key / 8] += static_cast<char>(value >> (8 * i) & 0xFF);
      continue;
    }
    if (key % 8 == 2) size = varint(rest);
    fields[key / 8] = rest.substr(0, size);
    rest.remove_prefix(size);
  }
  return fields;
}

std::vector<ReadEvent> events_in(const std::filesystem::path& path) {
  const std::string file = file_text(path);
  std::vector<ReadEvent> events;
  for (std::string_view rest = file; !rest.empty();) {
    const std::string message(rest.substr(12, number(rest.substr(0, 8))));
    const std::string record = tensorboard_record(message);
    EXPECT_TRUE(rest.starts_with(record)) << "a length or a checksum is wrong";
    rest.remove_prefix(record.size());
    const Fields event = fields_of(message);
    ReadEvent& read = events.emplace_back();
    read.time = std::bit_cast<double>(number(event.at(1)));
    read.step = static_cast<std::int64_t>(number(event.at(2)));
    if (event.contains(3)) read.version = event.at(3);
    if (event.contains(7)) read.is_start = number(fields_of(event.at(7)).at(1)) == 1;
    if (!event.contains(5)) continue;
    const Fields value = fields_of(fields_of(event.at(5)).at(1));
    read.tag = value.at(1);
    read.value = std::bit_cast<float>(static_cast<std::uint32_t>(number(value.at(2))));
  }
  return events;
}

TEST(TensorBoardLog, ChecksumIsThatOfRfc3720) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AA);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43);
}

TEST(TensorBoardLog, EachNodeIsARun) {
  const TemporaryFolder folder;
  TensorBoardLog log(folder.path());
  log.metric({"train", "train/loss", 0.5, 300}, 1000.25);
  log.metric({"evaluate", "evaluate/top1", 0.75, 300}, 1001);
  log.metric({"train", "train/loss", 0.25, 1LL << 40}, 1002);
  EXPECT_THAT(log.files(), ElementsAre("evaluate/events.out.tfevents.0000001001.retort.0000",
                                       "train/events.out.tfevents.0000001000.retort.0000"));
  EXPECT_THAT(
      events_in(folder / log.files()[1]),
      ElementsAre(ReadEvent{.time = 1000.25, .version = "brain.Event:2"},
                  ReadEvent{.time = 1000.25, .step = 300, .tag = "train/loss", .value = 0.5F},
                  ReadEvent{.time = 1002, .step = 1LL << 40, .tag = "train/loss", .value = 0.25F}));
}

TEST(TensorBoardLog, ARepeatedStepReplacesTheEarlierOne) {
  const TemporaryFolder folder;
  TensorBoardLog(folder.path()).metric({"train", "train/loss", 0.5, 9}, 1000);
  TensorBoardLog resumed(folder.path());
  resumed.restart("train", 8, 1000);
  EXPECT_THAT(resumed.files(), ElementsAre("train/events.out.tfevents.0000001000.retort.0001"))
      << "read after the earlier one";
  EXPECT_THAT(events_in(folder / resumed.files()[0]),
              ElementsAre(ReadEvent{.time = 1000, .version = "brain.Event:2"},
                          ReadEvent{.time = 1000, .step = 8, .is_start = true}));
}

TEST(TensorBoardLog, ARecordIsWrittenAfterwards) {
  const TemporaryFolder folder;
  folder.write("run/summary.json", R"({"started": "2026-01-31T13:00:00+0100"})");
  folder.write("run/metrics.jsonl",
               R"({"node": "train", "name": "train/loss", "value": 0.5, "step": 4, "time": 1.5})"
               "\n"
               R"({"node": "../x", "name": "train/loss", "value": 0.5, "step": 4, "time": 1.5})"
               "\n");
  const auto files = write_tensorboard(folder / "run", folder / "out");
  ASSERT_THAT(files, ElementsAre("train/events.out.tfevents.1769860801.retort.0000"));
  EXPECT_EQ(events_in(folder / "out" / files[0])[1],
            (ReadEvent{.time = 1769860801.5, .step = 4, .tag = "train/loss", .value = 0.5F}));
  EXPECT_FALSE(std::filesystem::exists(folder / "x"));
}

TEST(TensorBoardLog, NothingMeasuredIsNothingWritten) {
  const TemporaryFolder folder;
  EXPECT_THAT(write_tensorboard(folder.path(), folder / "out"), IsEmpty());
}

}  // namespace
}  // namespace runner
