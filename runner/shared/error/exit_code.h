#pragma once

namespace runner {

/// The exit codes of `retort` and `retort-worker`. Those of sysexits.h are used where they fit.
enum class ExitCode : int {
  kDone = 0,
  kRunFailed = 1,
  kWouldRun = 2,          ///< only for `plan --detailed-exitcode`
  kSomeTrialsFailed = 3,  ///< a sweep finished, but some trials failed
  kUsage = 64,
  kBadData = 65,
  kMissingInput = 66,
  kDeviceUnavailable = 69,
  kInternalError = 70,
  kCannotCreate = 73,
  kCannotWrite = 74,
  kStoppedAfterSave = 75,  ///< saved; `retort resume` continues the run
  kBadRecipe = 78,
  kNeedsAnotherDevice = 80,  ///< worker only: the worker has sent `stranded`
  kDeviceLost = 81,          ///< worker only: the device failed and nothing has been saved since
  kInterrupted = 130,        ///< stopped by SIGINT without a save
  kTerminated = 143,         ///< stopped by SIGTERM without a save
};

}  // namespace runner
