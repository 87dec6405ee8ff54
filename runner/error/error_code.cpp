#include "runner/error/error_code.h"

#include <algorithm>
#include <array>
#include <cassert>

namespace runner {
namespace {

using enum ErrorCode;
constexpr auto kRecipe = ExitCode::kBadRecipe;

constexpr std::array kErrors = {
    ErrorInfo{kYamlSyntax, kRecipe, "the text is not YAML"},
    ErrorInfo{kDuplicateKey, kRecipe, "a mapping has the same key twice"},
    ErrorInfo{kSecondDocument, kRecipe, "the file holds a second YAML document"},
    ErrorInfo{kUnknownTag, kRecipe, "a YAML tag that recipes do not use"},
    ErrorInfo{kNonStringKey, kRecipe, "a mapping key is null, a list or a mapping"},
    ErrorInfo{kAliasBomb, kRecipe, "anchors and aliases expand to too many values"},
    ErrorInfo{kInvalidUtf8, kRecipe, "the text is not UTF-8"},
    ErrorInfo{kNestingTooDeep, kRecipe, "values are nested too deeply"},
    ErrorInfo{kNumberOutOfRange, kRecipe, "a number has too many digits"},
    ErrorInfo{kFileTooLarge, kRecipe, "a recipe file is too large"},
    ErrorInfo{kYamlTrap, kRecipe, "a text without quotes that YAML 1.1 reads as something else"},

    ErrorInfo{kRecipeNotFound, ExitCode::kMissingInput, "no recipe of that name"},
    ErrorInfo{kOverrideSyntax, kRecipe, "an override cannot be read"},
    ErrorInfo{kOverrideUnknownKey, kRecipe, "an override sets a key that does not exist"},
    ErrorInfo{kOverrideExists, kRecipe, "an override adds a key that exists"},
    ErrorInfo{kUnknownGroupOption, kRecipe, "a config group has no such option"},
    ErrorInfo{kUnknownGroup, kRecipe, "no such config group"},
    ErrorInfo{kBadDefaults, kRecipe, "the defaults list cannot be understood"},
    ErrorInfo{kInterpolationUnknown, kRecipe, "an interpolation names a key that does not exist"},
    ErrorInfo{kInterpolationCycle, kRecipe, "interpolations refer to each other in a circle"},
    ErrorInfo{kInterpolationSyntax, kRecipe, "an interpolation cannot be read"},
    ErrorInfo{kUnknownResolver, kRecipe, "no such resolver"},
    ErrorInfo{kMissingEnvironment, kRecipe, "an environment variable is not set"},
    ErrorInfo{kMandatoryValue, kRecipe, "a value marked ??? was not given"},
    ErrorInfo{kBadAlias, kRecipe, "an alias cannot be understood"},
    ErrorInfo{kCannotDelete, kRecipe, "an override deletes what does not exist"},
    ErrorInfo{kContainerClash, kRecipe, "a list and a mapping are in the same place"},
    ErrorInfo{kNeedsMultirun, kRecipe, "an override lists several values"},
    ErrorInfo{kDefaultsCycle, kRecipe, "defaults lists include each other in a circle"},
    ErrorInfo{kForeignOption, kRecipe, "an option of the original program means nothing here"},
    ErrorInfo{kBadFunctionCall, kRecipe, "a function of an override cannot take its arguments"},
    ErrorInfo{kNestedSweep, kRecipe, "a sweep is inside another value"},
    ErrorInfo{kBadSweep, kRecipe, "a sweep cannot be expanded into runs"},
    ErrorInfo{kRepeatedJob, kRecipe, "two runs of a sweep are the same"},
    ErrorInfo{kBadEdit, kRecipe, "a list cannot be changed like that"},
    ErrorInfo{kDeprecatedKey, kRecipe, "an interpolation marks its key as deprecated"},

    ErrorInfo{kUnknownKey, kRecipe, "the schema does not know this key"},
    ErrorInfo{kWrongType, kRecipe, "a value has the wrong type"},
    ErrorInfo{kOutOfRange, kRecipe, "a number is outside its range"},
    ErrorInfo{kNotAllowedValue, kRecipe, "a value is not among those allowed"},
    ErrorInfo{kMissingKey, kRecipe, "a required key is missing"},
    ErrorInfo{kUnknownKind, kRecipe, "no stage is of this kind"},
    ErrorInfo{kBadPattern, kRecipe, "a text does not have the required form"},
    ErrorInfo{kBadLength, kRecipe, "a text, list or mapping is too short or too long"},
    ErrorInfo{kDuplicateItem, kRecipe, "a list holds the same item twice"},
    ErrorInfo{kNoAlternative, kRecipe, "a value fits none of the forms allowed"},
    ErrorInfo{kForbidden, kRecipe, "a value is not allowed here"},
    ErrorInfo{kBadName, kRecipe, "a name that cannot be a file name"},
    ErrorInfo{kNotBuiltYet, kRecipe, "an option that this build cannot honour"},
    ErrorInfo{kOptionConflict, kRecipe, "two options contradict each other"},
    ErrorInfo{kUnreadOption, ExitCode::kInternalError, "an option that no stage reads"},

    ErrorInfo{kUnwiredPort, kRecipe, "an input port has no output to take"},
    ErrorInfo{kAmbiguousPort, kRecipe, "an input port could take several outputs"},
    ErrorInfo{kUnknownPort, kRecipe, "no such port"},
    ErrorInfo{kPortTypeMismatch, kRecipe, "a port is wired to another type"},
    ErrorInfo{kGraphCycle, kRecipe, "stages wait for each other in a circle"},
    ErrorInfo{kBadForeach, kRecipe, "foreach cannot be understood"},
    ErrorInfo{kDuplicateNode, kRecipe, "two nodes have the same name"},
    ErrorInfo{kUnknownItem, kRecipe, "${item.x} names a key that foreach does not have"},
    ErrorInfo{kUnknownNode, ExitCode::kUsage, "the graph has no such node"},

    ErrorInfo{kUsage, ExitCode::kUsage, "the command line cannot be understood"},
    ErrorInfo{kUnknownVerb, ExitCode::kUsage, "no such verb"},

    ErrorInfo{kMissingFolder, ExitCode::kMissingInput, "a folder does not exist"},
    ErrorInfo{kEmptyClass, ExitCode::kBadData, "a class has no images"},
    ErrorInfo{kMissingImage, ExitCode::kMissingInput, "an image file does not exist"},
    ErrorInfo{kCorruptImage, ExitCode::kBadData, "an image file is damaged"},
    ErrorInfo{kImageTooLarge, ExitCode::kBadData, "an image has too many pixels"},
    ErrorInfo{kLabelOutOfRange, ExitCode::kBadData, "a label is outside the model's classes"},
    ErrorInfo{kOutsideRoot, ExitCode::kBadData, "a file lies outside the data's root"},
    ErrorInfo{kTooFewSamples, ExitCode::kBadData, "there are too few samples"},
    ErrorInfo{kUnsupportedImage, ExitCode::kBadData, "a file is not an image that can be read"},
    ErrorInfo{kFolderExists, ExitCode::kCannotCreate, "a folder to be written exists already"},
    ErrorInfo{kMissingAnnotations, ExitCode::kMissingInput, "an annotation file does not exist"},
    ErrorInfo{kBadAnnotations, ExitCode::kBadData, "an annotation file is wrong"},
    ErrorInfo{kDamagedWeights, ExitCode::kBadData, "a weights file is damaged"},
    ErrorInfo{kMissingWeights, ExitCode::kMissingInput, "a weights file does not exist"},
    ErrorInfo{kUnknownInput, ExitCode::kBadData, "a checkpoint does not say what its network takes in"},
    ErrorInfo{kDownloadFailed, ExitCode::kDeviceUnavailable, "a file could not be fetched"},
    ErrorInfo{kNotPublished, ExitCode::kMissingInput, "a server does not have a file, or does not give it"},
    ErrorInfo{kWrongChecksum, ExitCode::kBadData, "a file is not the published one"},
    ErrorInfo{kBadArchive, ExitCode::kBadData, "an archive is damaged, or holds what it should not"},
    ErrorInfo{kMissingFile, ExitCode::kMissingInput, "a file does not exist or cannot be read"},

    ErrorInfo{kStageFailed, ExitCode::kRunFailed, "a stage failed"},
    ErrorInfo{kLossNotFinite, ExitCode::kRunFailed, "the loss is not a number"},
    ErrorInfo{kDeviceUnavailable, ExitCode::kDeviceUnavailable, "the device is not available"},
    ErrorInfo{kWorkerDied, ExitCode::kRunFailed, "the worker died"},
    ErrorInfo{kWorkerMismatch, ExitCode::kInternalError, "worker and retort are of different builds"},
    ErrorInfo{kOutOfMemory, ExitCode::kRunFailed, "the device ran out of memory"},
    ErrorInfo{kInterrupted, ExitCode::kInterrupted, "the run was interrupted"},
    ErrorInfo{kProtocol, ExitCode::kInternalError, "the worker said something that cannot be understood"},
    ErrorInfo{kWorkerMissing, ExitCode::kInternalError, "the worker program is not installed"},
    ErrorInfo{kNotDeterministic, ExitCode::kRunFailed, "an operation may give different bits the next time"},
    ErrorInfo{kNothingCompared, ExitCode::kRunFailed, "a check found nothing to compare"},

    ErrorInfo{kCannotCreate, ExitCode::kCannotCreate, "a file or folder cannot be created"},
    ErrorInfo{kCannotWrite, ExitCode::kCannotWrite, "a file cannot be written"},
    ErrorInfo{kRunFolderTaken, ExitCode::kCannotCreate, "the folder holds another run"},
    ErrorInfo{kDiskFull, ExitCode::kCannotWrite, "the disk is full"},
    ErrorInfo{kRunBusy, ExitCode::kDeviceUnavailable, "the run is still running"},
    ErrorInfo{kNoRun, ExitCode::kMissingInput, "the folder holds no run"},
    ErrorInfo{kChangedRun, kRecipe, "a run cannot continue with another recipe"},
    ErrorInfo{kNoCheckpoint, ExitCode::kMissingInput, "the run has saved no checkpoint"},
    ErrorInfo{kTrainedOption, kRecipe, "an option that cannot change once a network is trained"},
    ErrorInfo{kNoResults, ExitCode::kMissingInput, "the run has no results to show"},
    ErrorInfo{kDamagedRecord, ExitCode::kBadData, "a file of a run's record is damaged"},

    ErrorInfo{kInternal, ExitCode::kInternalError, "an error in Retort"},
    ErrorInfo{kBadSchema, ExitCode::kInternalError, "a schema uses what the validator does not know"},
};

}  // namespace

std::span<const ErrorInfo> all_errors() { return kErrors; }

const ErrorInfo& info(ErrorCode code) {
  const auto found = std::ranges::find(kErrors, code, &ErrorInfo::code);
  assert(found != kErrors.end());
  return *found;
}

std::string name(ErrorCode code) {
  const std::string digits = std::to_string(static_cast<int>(code));
  return "E" + std::string(4 - digits.size(), '0') + digits;
}

}  // namespace runner
