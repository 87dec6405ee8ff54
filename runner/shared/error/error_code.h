#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/shared/error/exit_code.h"

namespace runner {

/// Every kind of error has a number that never changes its meaning. Messages show it as
/// error[E0123]. The first two digits are 01 for reading, 02 composing, 03 validating, 04
/// compiling, 05 usage, 06 data, 07 running, 08 writing, and 09 bugs in Retort.
enum class ErrorCode : int {
  kYamlSyntax = 101,
  kDuplicateKey = 102,
  kSecondDocument = 103,
  kUnknownTag = 104,
  kNonStringKey = 105,
  kAliasBomb = 106,
  kInvalidUtf8 = 107,
  kNestingTooDeep = 108,
  kNumberOutOfRange = 109,
  kFileTooLarge = 110,
  kYamlTrap = 111,

  kRecipeNotFound = 201,
  kOverrideSyntax = 202,
  kOverrideUnknownKey = 203,
  kOverrideExists = 204,
  kUnknownGroupOption = 205,
  kUnknownGroup = 206,
  kBadDefaults = 207,
  kInterpolationUnknown = 208,
  kInterpolationCycle = 209,
  kInterpolationSyntax = 210,
  kUnknownResolver = 211,
  kMissingEnvironment = 212,
  kMandatoryValue = 213,
  kBadAlias = 214,
  kCannotDelete = 215,
  kContainerClash = 216,
  kNeedsMultirun = 217,
  kDefaultsCycle = 218,
  kForeignOption = 219,
  kBadFunctionCall = 230,
  kNestedSweep = 231,
  kBadSweep = 232,
  kRepeatedTrial = 233,
  kBadEdit = 234,
  kDeprecatedKey = 235,

  kUnknownKey = 301,
  kWrongType = 302,
  kOutOfRange = 303,
  kNotAllowedValue = 304,
  kMissingKey = 305,
  kUnknownKind = 306,
  kBadPattern = 307,
  kBadLength = 308,
  kDuplicateItem = 309,
  kNoAlternative = 310,
  kForbidden = 311,
  kBadName = 312,
  kUnavailableKind = 313,
  kOptionConflict = 314,
  kUnreadOption = 315,

  kUnwiredPort = 401,
  kAmbiguousPort = 402,
  kUnknownPort = 403,
  kPortTypeMismatch = 404,
  kGraphCycle = 405,
  kBadForeach = 406,
  kDuplicateNode = 407,
  kUnknownItem = 408,
  kUnknownNode = 409,

  kUsage = 501,
  kUnknownVerb = 502,

  kMissingFolder = 601,
  kEmptyClass = 602,
  kMissingImage = 603,
  kCorruptImage = 604,
  kImageTooLarge = 605,
  kLabelOutOfRange = 606,
  kOutsideRoot = 607,
  kTooFewSamples = 608,
  kUnsupportedImage = 609,
  kFolderExists = 610,
  kMissingAnnotations = 611,
  kBadAnnotations = 612,
  kDamagedWeights = 620,
  kMissingWeights = 621,
  kUnknownInput = 622,
  kDownloadFailed = 630,
  kNotPublished = 631,
  kWrongChecksum = 632,
  kBadArchive = 633,
  kMissingFile = 634,

  kStageFailed = 701,
  kLossNotFinite = 702,
  kDeviceUnavailable = 703,
  kWorkerDied = 704,
  kWorkerMismatch = 705,
  kOutOfMemory = 706,
  kInterrupted = 707,
  kProtocol = 708,
  kWorkerMissing = 709,
  kNotDeterministic = 710,
  kNothingCompared = 711,
  kDeviceLost = 712,
  kTerminated = 713,
  kUntrustedCode = 714,
  kNoPython = 715,
  kHookFailed = 716,
  kMeasuredPlan = 717,
  kRankLost = 718,
  kNoMeeting = 719,
  kClusterSilent = 720,
  kClusterRefused = 721,
  kNoTracker = 722,
  kNotTracked = 723,

  kCannotCreate = 801,
  kCannotWrite = 802,
  kRunFolderTaken = 803,
  kDiskFull = 804,
  kRunBusy = 805,
  kNoRun = 806,
  kChangedRun = 807,
  kNoCheckpoint = 808,
  kTrainedOption = 809,
  kNoResults = 820,
  kDamagedRecord = 821,

  kInternal = 901,
  kBadSchema = 902,
};

/// A row of the error table: the exit code, and what `retort explain E0123` prints.
struct ErrorInfo {
  ErrorCode code;
  ExitCode exit;
  std::string_view title;
  std::string_view cause;    ///< when the error is reported
  std::string_view example;  ///< a line in a file, a command or a situation that causes it
  std::string_view remedy;
};

/// Returns the entire table, sorted by number.
std::vector<ErrorInfo> all_errors();
const ErrorInfo& info(ErrorCode code);

/// Returns the error's name as shown in messages, such as "E0123".
std::string name(ErrorCode code);
std::optional<ErrorCode> error_code_named(std::string_view name);

}  // namespace runner
