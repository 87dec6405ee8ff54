// Runs tests on the stand-in for a GPU. A test in which the stand-in has seen a fault fails.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/stand_in/faults.h"

namespace {

class FaultListener final : public testing::EmptyTestEventListener {
 public:
  void OnTestEnd(const testing::TestInfo&) override {
    for (const std::string& fault : stand_in::take_faults()) ADD_FAILURE() << fault;
  }
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  testing::UnitTest::GetInstance()->listeners().Append(new FaultListener);
  return RUN_ALL_TESTS();
}
