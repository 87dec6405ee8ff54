// Runs tests on the stand-in for a GPU. A test in which the stand-in has seen a fault fails.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/stand_in/card_allocator.h"
#include "tests/support/stand_in/counts.h"
#include "tests/support/stand_in/faults.h"

namespace {

class FaultListener final : public testing::EmptyTestEventListener {
 public:
  void OnTestStart(const testing::TestInfo&) override { before_ = stand_in::counts(); }
  void OnTestEnd(const testing::TestInfo&) override {
    const stand_in::Counts here = stand_in::counts() - before_;
    for (c10::DeviceIndex card = 0; card < stand_in::kCards; ++card)  // to see what has arrived
      stand_in::streams().synchronize(c10::Device(c10::kCUDA, card));
    testing::Test::RecordProperty("launches", std::to_string(here.launches));
    for (const std::string& fault : stand_in::take_faults()) ADD_FAILURE() << fault;
  }

 private:
  stand_in::Counts before_;
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  testing::UnitTest::GetInstance()->listeners().Append(new FaultListener);
  return RUN_ALL_TESTS();
}
