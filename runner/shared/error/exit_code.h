#pragma once

namespace runner {

/// How a program of ours ends; sysexits where they fit. The same table for `retort` and
/// `retort-worker`.
enum class ExitCode : int {
  kDone = 0,
  kRunFailed = 1,
  kWouldRun = 2,          ///< only `plan --detailed-exitcode`
  kSomeTrialsFailed = 3,  ///< a sweep finished, some trials failed
  kUsage = 64,
  kBadData = 65,
  kMissingInput = 66,
  kDeviceUnavailable = 69,
  kInternalError = 70,
  kCannotCreate = 73,
  kCannotWrite = 74,
  kStoppedAfterSave = 75,  ///< run `retort resume`
  kBadRecipe = 78,
  kNeedsAnotherDevice = 80,  ///< a worker's only: it has said `stranded`
  kDeviceLost = 81,    ///< a worker's only: its device failed, and nothing after that was saved
  kInterrupted = 130,  ///< SIGINT without a save
  kTerminated = 143,   ///< SIGTERM without a save
};

}  // namespace runner
