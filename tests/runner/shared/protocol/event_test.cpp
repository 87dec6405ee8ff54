#include "runner/shared/protocol/event.h"

#include <cmath>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace runner {
namespace {

std::string why_refused(std::string_view line) {
  try {
    event_from_line(line);
    return "accepted";
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

const char* const kEveryLine[] = {
    R"({"event":"hello","protocol":1,"build":"0.1.0-abc","versions":{"libtorch":"2.11.0"}})",
    R"({"event":"ready","device":"cuda:1","threads":4,"variables":{"CUBLAS_WORKSPACE_CONFIG":":4096:8"}})",
    R"({"event":"joined","folder":"/a/run/ranks/1"})",
    R"({"event":"diagnostic","severity":"warning","code":"E0601","message":"m","pointer":"/data/root","help":"h","notes":["n"]})",
    R"({"event":"node_started","node":"train"})",
    R"({"event":"resumed","node":"train","metrics":40,"step":120})",
    R"({"event":"reused","node":"train","run":"/a/run"})",
    R"({"event":"progress","node":"train","phase":"train","epoch":1,"epochs":2,"step":3,"steps":4,"samples_per_second":5.5,"loss":0.25,"seconds_left":60.0,"memory_bytes":7,"budget_bytes":8,"bytes":9,"bytes_in_all":10,"bytes_per_second":11.5})",
    R"({"event":"metric","node":"train","name":"train/loss","value":0.5,"step":120})",
    R"({"event":"histogram","node":"train","name":"gradients/head.weight","buckets":[[-0.5,0.0,3],[0.0,0.25,1]],"step":120})",
    R"({"event":"say","node":"train","line":"epoch 1: 83%"})",
    R"({"event":"log","level":"debug","node":"train","line":"layout: contiguous"})",
    R"({"event":"recovered","node":"train","cause":"out of memory","phase":"backward","step":3,"tried":4,"taken":60,"limit":64,"from":"micro_batch 8","to":"micro_batch 4"})",
    R"({"event":"stranded","node":"train","to":["gpu","cpu"],"retries":2,"error":{"severity":"error","code":"E0706","message":"m","pointer":"/train","help":"h","notes":[]},"incident":{"cause":"out of memory","phase":"","step":3,"tried":4,"taken":5,"limit":6,"from":"","to":""}})",
    R"({"event":"flush","node":"train"})",
    R"({"event":"node_finished","node":"train","seconds":1.5,"peak_memory_bytes":1024})",
    R"({"event":"item","item":{"file":"a.jpg"}})",
    R"({"event":"answer","answer":{"a":[1]}})",
    R"({"event":"finished","exit":78})",
};

TEST(Event, EveryEventSurvivesTheRoundTrip) {
  std::size_t index = 0;
  for (const char* line : kEveryLine) {
    const Event event = event_from_line(line);
    EXPECT_EQ(event.index(), index++);
    EXPECT_EQ(to_line(event), line);
  }
  EXPECT_EQ(index, std::variant_size_v<Event>);
}

TEST(Event, NonFiniteNumbersAreSentAsStrings) {
  EXPECT_EQ(to_line(NodeMetric{"a", "b", INFINITY, 0}),
            R"({"event":"metric","node":"a","name":"b","value":"inf","step":0})");
  const Event back = event_from_line(to_line(NodeMetric{"a", "b", NAN, 0}));
  EXPECT_TRUE(std::isnan(std::get<NodeMetric>(back).value));
  EXPECT_EQ(
      std::get<NodeMetric>(event_from_line(to_line(NodeMetric{"a", "b", -INFINITY, 0}))).value,
      -INFINITY);
}

TEST(Event, InvalidUtf8IsReplaced) {
  EXPECT_EQ(to_line(Said{"a", "b\xff.jpg\n"}),
            "{\"event\":\"say\",\"node\":\"a\",\"line\":\"b\uFFFD.jpg\\n\"}");
}

TEST(Event, NestingIsBounded) {
  const auto nested = [](int depth) {
    return R"({"event":"answer","answer":)" + std::string(depth, '[') + std::string(depth, ']') +
           "}";
  };
  EXPECT_EQ(why_refused(nested(60)), "accepted");
  EXPECT_EQ(why_refused(nested(70)), "nested too deeply");
}

TEST(Event, MalformedEventsAreRejected) {
  EXPECT_EQ(why_refused(""), "not JSON");
  EXPECT_EQ(why_refused("Segmentation fault"), "not JSON");
  EXPECT_EQ(why_refused(R"({"event":"say")"), "not JSON");
  EXPECT_EQ(why_refused("[1]"), "an event is not a JSON object");
  EXPECT_EQ(why_refused("{}"), "an event has no 'event'");
  EXPECT_EQ(why_refused(R"({"event":3})"), "an event has a 'event' that is not a string");
  EXPECT_EQ(why_refused(R"({"event":"dance"})"), "unknown event 'dance'");
  EXPECT_EQ(why_refused(R"({"event":"log","level":"loud","node":"","line":"a"})"),
            "unknown level 'loud'");
  EXPECT_EQ(why_refused(R"({"event":"log","level":"off","node":"","line":"a"})"),
            "unknown level 'off'");
  EXPECT_EQ(why_refused(R"({"event":"finished"})"), "an event has no 'exit'");
  EXPECT_EQ(why_refused(R"({"event":"finished","exit":256})"), "'exit' is not an exit code");
  EXPECT_EQ(why_refused(R"({"event":"finished","exit":1.5})"),
            "an event has a 'exit' that is not an integer");
  EXPECT_EQ(why_refused(R"({"event":"metric","node":"a","name":"b","value":"many","step":0})"),
            "an event has a 'value' that is not a number");
  EXPECT_EQ(
      why_refused(
          R"({"event":"metric","node":"a","name":"b","value":1,"step":18446744073709551615})"),
      "an event has a 'step' that is not an integer");
  EXPECT_EQ(
      why_refused(
          R"({"event":"diagnostic","code":"E9999","pointer":"","message":"","help":"","severity":"error","notes":[]})"),
      "unknown error code 'E9999'");
  EXPECT_EQ(why_refused(R"({"event":"ready","device":"cpu","threads":1,"variables":[]})"),
            "an event has a 'variables' that is not an object");
  EXPECT_EQ(why_refused(R"({"event":"ready","device":"cpu","threads":1,"variables":{"A":1}})"),
            "a variable is not a string");
  EXPECT_EQ(why_refused(R"({"event":"answer","answer":)" + std::string(100'000, '[')),
            "nested too deeply");
}

}  // namespace
}  // namespace runner
