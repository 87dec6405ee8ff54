#pragma once

#include <gtest/gtest.h>

#include "tests/support/fake_devices.h"
#include "tests/support/temporary_folder.h"

namespace runner {

/// Takes devices of a fake machine, with locks in a folder of its own.
class TakeDeviceTest : public testing::Test {
 protected:
  TakeDeviceTest() {
    request_.timeout = std::chrono::minutes(60);
    request_.interval = std::chrono::seconds(30);
  }

  Result<TakenDevice> take(const NeedOf& need) {
    return take_device(request_, need, machine_.world(locks()));
  }
  Result<TakenDevice> take(int gib) { return take(needing(gib)); }
  std::filesystem::path locks() const { return temporary_.path() / "locks"; }

  /// The message, followed by the notes.
  static std::string told(const Result<TakenDevice>& taken) {
    if (taken) return "taken: " + taken->select;
    EXPECT_EQ(taken.errors().size(), 1U);
    EXPECT_EQ(taken.errors().front().code, ErrorCode::kDeviceUnavailable);
    EXPECT_EQ(exit_code(taken.errors()), ExitCode::kDeviceUnavailable);
    std::string text = taken.errors().front().message;
    for (const Note& note : taken.errors().front().notes) text += "\n" + note.message;
    return text;
  }
  static std::string help(const Result<TakenDevice>& taken) {
    return taken ? "" : taken.errors().front().help;
  }

  TemporaryFolder temporary_;
  FakeMachine machine_;
  DeviceRequest request_{.select = "auto"};
};

}  // namespace runner
