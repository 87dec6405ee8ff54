#include "runner/shared/error/error_code.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <span>

#include "runner/shared/error/recipe_errors.h"

namespace runner {
namespace {

using enum ErrorCode;

/// The rows for the error numbers from 0500 on.
constexpr auto kErrors = std::to_array<ErrorInfo>({
    {kUsage, ExitCode::kUsage, "the command line is not valid",
     "A flag or an argument on the command line is missing or unknown.",
     "retort run classify --smok", "retort VERB --help shows how it is used."},
    {kUnknownVerb, ExitCode::kUsage, "no such verb", "The first word is not a verb.",
     "retort rnu classify", "retort --help lists the verbs."},

    {kMissingFolder, ExitCode::kMissingInput, "a folder does not exist",
     "A folder to be read by the data stage does not exist.", "data.root=no/such/folder",
     "Correct the path. Relative paths start at the working directory."},
    {kEmptyClass, ExitCode::kBadData, "a class has no images",
     "A class's folder contains no images, so the class cannot be learned.",
     "photos/cats without any files", "Add images to the folder, or remove it."},
    {kMissingImage, ExitCode::kMissingInput, "an image file does not exist",
     "An image cannot be opened.", "a link to a deleted file",
     "Restore the file, or remove the link."},
    {kCorruptImage, ExitCode::kBadData, "an image file is damaged",
     "An image is damaged: it is truncated, or its contents are inconsistent.",
     "a JPEG cut off by a full disk",
     "Replace it; data.on_corrupt=skip skips such images and counts them."},
    {kImageTooLarge, ExitCode::kBadData, "an image has too many pixels",
     "An image has more than 178 million pixels, which is more than a decoder should accept.",
     "a scan of 20,000 by 20,000 pixels", "Make it smaller, or leave it out."},
    {kLabelOutOfRange, ExitCode::kBadData, "a label is outside the model's classes",
     "The data's classes do not match the model's outputs or the classes that it was trained on.",
     "model.num_classes=10 and a folder of 102 classes",
     "Leave model.num_classes out: it then defaults to the number of classes in the data."},
    {kOutsideRoot, ExitCode::kBadData, "a file is outside the data's root",
     "A link points outside the data's root.", "photos/cats/1.jpg -> another folder",
     "Copy the files, or set data.allow_outside=true if the link is intended."},
    {kTooFewSamples, ExitCode::kBadData, "there are too few samples",
     "A part of the data has no samples, or fewer than are needed.",
     "data.split.test=0.001 with 200 images",
     "Give that part more images, or use a smaller batch."},
    {kUnsupportedImage, ExitCode::kBadData, "a file is not an image that can be read",
     "A file is not JPEG, PNG or WebP, or cannot be converted to RGB.", "a TIFF named photo.jpg",
     "Convert it; data.on_corrupt=skip skips such files and counts them."},
    {kFolderExists, ExitCode::kCannotCreate, "an output folder already exists",
     "The output folder already exists, and nothing is ever overwritten.",
     "retort data make image_folder --out photos    (twice)",
     "Choose another name, or remove the folder."},
    {kMissingAnnotations, ExitCode::kMissingInput, "an annotation file does not exist",
     "An annotation file, which describes the images, is not in the dataset's folder.",
     "data.root=data    (data/flowers-102 without setid.mat)",
     "Add it (it is published with the images), or correct data.root."},
    {kBadAnnotations, ExitCode::kBadData, "an annotation file is wrong",
     "An annotation file, which describes the images, is truncated, has an unexpected "
     "format, or contradicts itself or another file.",
     "images.txt with a duplicate number", "Use the file as published."},
    {kDamagedWeights, ExitCode::kBadData, "a weights file is damaged",
     "A weights file is truncated or inconsistent, has an unknown format, or contains code that "
     "would run when it is loaded.",
     "an interrupted download",
     "Fetch it again and compare its checksum; `retort resume RUN` recreates a run's checkpoint."},
    {kMissingWeights, ExitCode::kMissingInput, "a weights file does not exist",
     "The weights are not where the recipe says they are.",
     "model.weights=weights/none.safetensors",
     "Move them there, fetch them (`retort data fetch hf:ORG/NAME`), or set model.weights to their "
     "location."},
    {kUnknownInput, ExitCode::kBadData, "a checkpoint does not describe its network's input",
     "The checkpoint does not describe how an image is turned into the input of its network.",
     "a network that was trained on something other than images",
     "Predict with a network that was trained on images; evaluate this one with `retort "
     "evaluate`."},
    {kDownloadFailed, ExitCode::kDeviceUnavailable, "a file could not be fetched",
     "A file could not be fetched: its server could not be reached, or the connection kept "
     "breaking.",
     "no network, or one that needs https_proxy",
     "Run the same command again: it continues where it left off. Or download the file yourself "
     "and use --from-file."},
    {kNotPublished, ExitCode::kMissingInput, "a server does not have a file, or denies access",
     "The server responded that it does not have the file or that access is denied.",
     "retort data fetch hf:openai/clip-vit-base-patch23",
     "Check the name; a private file needs your token in HF_TOKEN."},
    {kWrongChecksum, ExitCode::kBadData, "a file is not the published one",
     "A file that was fetched or given with --from-file does not have the published checksum and "
     "is not used.",
     "an archive that a proxy truncated",
     "Fetch it again; if that does not help, fetch it from another server."},
    {kBadArchive, ExitCode::kBadData, "an archive is damaged, or has unexpected contents",
     "An archive cannot be unpacked, or it contains a link, a device, a path that points outside "
     "its folder, or far more than the dataset.",
     "an archive that contains ../../.bashrc", "Fetch it again from its original location."},
    {kMissingFile, ExitCode::kMissingInput, "a file does not exist or cannot be read",
     "A file given on the command line or in an `entry` option does not exist or cannot be read.",
     "retort data fetch cub200 --from-file no/such.tgz",
     "Correct the path. Relative paths start at the working directory."},

    {kStageFailed, ExitCode::kRunFailed, "a stage failed", "A stage failed; the message says why.",
     "a tensor of the wrong shape", "See log.txt in the run folder for details."},
    {kLossNotFinite, ExitCode::kRunFailed, "the loss is not a number",
     "The loss became infinite or NaN, and training cannot recover from that.",
     "train.optimizer.learning_rate=100",
     "Lower the learning rate, set train.gradient_clip_norm, or check the samples in the message."},
    {kDeviceUnavailable, ExitCode::kDeviceUnavailable, "the device is not available",
     "The device selected by the recipe does not exist, or no GPU has enough free memory for the "
     "run.",
     "device=cuda:3 on a machine with one GPU",
     "retort devices lists the GPUs; device.wait_for_gpu=true waits for one, device=cpu always "
     "works."},
    {kWorkerDied, ExitCode::kRunFailed, "the worker died",
     "The worker exited without an explanation: it was killed, or it crashed.",
     "it was killed by the kernel when memory ran out",
     "Read the last lines of its output; use a smaller batch if memory ran out."},
    {kWorkerMismatch, ExitCode::kInternalError, "retort and its worker come from different builds",
     "retort and retort-worker were not built together.", "one of them was copied by hand",
     "Install both from one build."},
    {kOutOfMemory, ExitCode::kRunFailed, "the device ran out of memory",
     "A step needs more memory than the device has or memory.budget allows; if this is known in "
     "advance, nothing is run.",
     "train.batch_size=4096 on a small GPU",
     "`retort plan` shows where every byte goes and what would fit; use a smaller batch or smaller "
     "images, or a device with more memory."},
    {kInterrupted, ExitCode::kInterrupted, "the run was interrupted",
     "The run was stopped by a signal.", "Ctrl-C",
     "The run folder contains everything written until then."},
    {kProtocol, ExitCode::kInternalError, "the worker sent an invalid message",
     "retort and retort-worker did not understand each other. This is a bug in Retort.",
     "a message cut in half",
     "Install both from one build; log.txt in the run folder has the details."},
    {kWorkerMissing, ExitCode::kInternalError, "the worker program is not installed",
     "retort-worker is neither next to retort nor in its libexec folder.", "only retort was copied",
     "Install both; retort doctor shows where retort looks for it."},
    {kNotDeterministic, ExitCode::kRunFailed, "an operation is not guaranteed to be deterministic",
     "LibTorch or cuBLAS does not guarantee that this operation gives the same bits every time. "
     "'determinism: strict', the default, rejects it; 'determinism: warn' only warns.",
     "a cumulative sum of floats on a GPU",
     "Set determinism: warn to continue with a warning, or determinism: off; or run on the CPU, "
     "where most operations are deterministic."},
    {kNothingCompared, ExitCode::kRunFailed, "a check found nothing to compare",
     "retort doctor determinism compares the tensors of training runs, and retort certify compares "
     "their gradients, but the recipe does not train anything.",
     "retort doctor determinism on a recipe that only evaluates",
     "Use a recipe with a train stage."},
    {kDeviceLost, ExitCode::kDeviceUnavailable, "a device failed",
     "CUDA reported an error after which the process can no longer use the GPU, such as an illegal "
     "access, an uncorrectable memory error, or a lost GPU. The worker is restarted from the last "
     "checkpoint up to memory.max_retries times, as long as each attempt gets further than the "
     "previous one.",
     "a GPU that has fallen off the bus",
     "Continue with retort resume. If it fails again at the same point, run it on another device."},
    {kTerminated, ExitCode::kTerminated, "the program was stopped by a signal",
     "Another program, or the system during a shutdown, asked Retort to exit.",
     "kill, or a cluster's time limit", "The run folder contains everything written until then."},
    {kUntrustedCode, ExitCode::kBadRecipe, "code is not trusted",
     "A recipe uses Python code or hook commands that you have not allowed to run on this machine, "
     "or that have changed since you allowed them. Such code can do anything that you can do.",
     "model.entry=my_net.py:make    (a file that was just downloaded)",
     "Read it, then allow it: retort trust my_net.py. retort trust --list shows what is allowed."},
    {kNoPython, ExitCode::kDeviceUnavailable, "Python cannot host the worker",
     "A recipe uses Python code, but there is no Python interpreter, or it has no torch, or a "
     "version of torch other than the one that Retort was built for.",
     "python=venv/bin/python    (an environment without torch)",
     "Install torch into that environment, or choose another interpreter with python=…."},
    {kHookFailed, ExitCode::kRunFailed, "a hook command failed",
     "A command in the recipe's hooks could not be started, exited with an error, or took longer "
     "than hooks.timeout_seconds. The run itself continues.",
     "hooks: {after_run: [[./notify.sh]]}    (a script that is not executable)",
     "Run the command yourself; it receives the event as JSON on standard input."},
    {kMeasuredPlan, ExitCode::kRunFailed, "a plan requires running real steps",
     "Python code reads the values of tensors, for example with .item() or boolean masks, or uses "
     "an operator that a dry run does not support. Its plan is an upper bound, measured by running "
     "steps on the device. Other values may need a different amount of memory. This is a warning; "
     "with --strict, or if this machine does not have the device, it is an error.",
     "model.arguments.model_name=gemma4_vit_167m",
     "Avoid reading the values, for example with torch.where instead of a boolean mask; or plan on "
     "a machine with the device, without --strict."},
    {kRankLost, ExitCode::kRunFailed, "a rank of the run has exited or does not respond",
     "The processes that train together (device.count) depend on each other: when one exits, the "
     "others exit too. The error of the first one, or the signal that killed it, shows why. The "
     "others also exit if one does not respond for device.collective_timeout_seconds.",
     "one of two workers was killed",
     "Continue from the last checkpoint with retort resume. If the rank was only busy, raise "
     "device.collective_timeout_seconds."},
    {kNoMeeting, ExitCode::kDeviceUnavailable, "the ranks of a run cannot meet",
     "The processes started by a launcher (torchrun, srun, mpirun) find each other at MASTER_ADDR "
     "and MASTER_PORT. One of them did not connect, connected twice, belongs to another job, or "
     "would run a different recipe or different programs.",
     "WORLD_SIZE=2 RANK=1 MASTER_ADDR=node1 MASTER_PORT=29500 retort run classify    (without "
     "rank 0)",
     "Start the same command for all ranks at the same time, with one launcher."},
    {kClusterSilent, ExitCode::kDeviceUnavailable, "the cluster's scheduler does not respond",
     "A command of the scheduler, such as squeue, is not installed here, failed, or did not finish "
     "in time. Submitted tasks continue on their own and leave their results in the sweep's "
     "folder.",
     "retort sweep classify seed=1,2 --launcher slurm    (on a laptop)",
     "Try the command yourself; then continue with retort sweep resume DIR, which submits nothing "
     "twice."},
    {kClusterRefused, ExitCode::kDeviceUnavailable, "the cluster's scheduler rejected a job",
     "The scheduler did not accept the trials of a sweep; the message comes from the scheduler.",
     "sweep.launcher.partition=none-of-that-name",
     "Correct launch/launcher.json in the sweep's folder, and continue with retort sweep resume "
     "DIR."},
    {kNoTracker, ExitCode::kBadRecipe, "there is no MLflow server to send to",
     "run.mlflow sends a run to the MLflow server at MLFLOW_TRACKING_URI. That variable is not "
     "set, or is not the address of a server but, for example, a folder or a database.",
     "MLFLOW_TRACKING_URI=sqlite:///mlflow.db retort run classify run.mlflow=true",
     "Start a server, for example with mlflow server --backend-store-uri sqlite:///mlflow.db, and "
     "set MLFLOW_TRACKING_URI=http://127.0.0.1:5000."},
    {kNotTracked, ExitCode::kDeviceUnavailable, "an MLflow server did not receive all of a run",
     "The MLflow server did not respond in time, or rejected something. The run itself is not "
     "affected, and its folder contains everything.",
     "the server was stopped during a run",
     "Send the rest with retort export RUN --mlflow URI, which sends nothing twice."},

    {kCannotCreate, ExitCode::kCannotCreate, "a file or folder cannot be created",
     "A file or folder cannot be created.", "run.dir in a folder without write permission",
     "Choose another folder, or change the folder's permissions."},
    {kCannotWrite, ExitCode::kCannotWrite, "a file or standard output cannot be written",
     "A file or standard output was opened, but writing to it failed.", "retort stages >/dev/full",
     "Check the disk; the message says why."},
    {kRunFolderTaken, ExitCode::kCannotCreate, "the folder already contains a run",
     "The folder already contains the record of a run, which is never overwritten.",
     "run.dir=outputs/a    (twice)", "Choose a different run.dir, or leave it out."},
    {kDiskFull, ExitCode::kCannotWrite, "the disk is full", "There is no space left on the disk.",
     "outputs/ on a full disk", "Free up space, or choose another location with run.dir."},
    {kRunBusy, ExitCode::kDeviceUnavailable, "the run is still running",
     "Another process is running or resuming this run, and only one may write its record.",
     "retort resume outputs/a    (while it runs)",
     "Wait until it ends, or stop it: on TERM or INT, it saves first."},
    {kNoRun, ExitCode::kMissingInput, "the folder does not contain a run",
     "The folder was not created by `retort run`: it has no .retort/run.json, or its record "
     "cannot be read.",
     "retort resume photos", "Give the folder that `retort run` printed."},
    {kChangedRun, ExitCode::kBadRecipe, "a change prevents a run from being continued or repeated",
     "A run cannot be resumed with the new value of an option, because the value is incompatible "
     "with its saved state or because no single recipe would describe the result. Or a run cannot "
     "be continued, repeated or evaluated, because its input files, record, checkpoints or "
     "versions of stage kinds have changed since.",
     "retort resume outputs/a model.hidden_size=64",
     "Leave it unchanged or restore it, add --force if the message offers it, or start a new run."},
    {kNoCheckpoint, ExitCode::kMissingInput, "the run has no checkpoint",
     "The run has no weights to evaluate or predict with: it has not reached its first save, or "
     "they were removed.",
     "retort predict outputs/a photos    (a second after `retort run`)",
     "Train it with retort resume RUN; train.checkpoint sets when checkpoints are saved."},
    {kTrainedOption, ExitCode::kBadRecipe,
     "an option that cannot be changed once a network is trained",
     "`retort evaluate` and `retort predict` use the trained weights unchanged. A model or "
     "training option would have no effect on them or would be incompatible with them.",
     "retort evaluate outputs/a train.epochs=50",
     "Leave it out, or train again: retort run RUN/.retort/recipe.yaml."},
    {kNoResults, ExitCode::kMissingInput, "the run has no results to show",
     "The run's record has no measurements for `retort analyze` to show, or no evaluation results "
     "for `retort compare` to compare.",
     "retort compare outputs/a outputs/b    (b was stopped before it was evaluated)",
     "Finish the run with retort resume RUN, or evaluate its trained network with retort evaluate "
     "RUN."},
    {kDamagedRecord, ExitCode::kBadData, "a file in a run's record is damaged",
     "A file in a run's record does not contain what Retort wrote to it.",
     "nodes/evaluate/metrics.json cut off by a full disk",
     "Evaluate the run again: retort evaluate RUN."},

    {kInternal, ExitCode::kInternalError, "a bug in Retort",
     "Something happened that should never happen.", "none known",
     "Keep the command, the recipe and log.txt: they will help to find the bug."},
    {kBadSchema, ExitCode::kInternalError,
     "a schema uses a keyword or a form that is not supported",
     "A file in schemas/ breaks the rules of schemas/README.md. Only a changed schema causes this.",
     "an option without a description", "Correct the schema at the given location."},
});

}  // namespace

std::vector<ErrorInfo> all_errors() {
  const std::span<const ErrorInfo> of_recipes = recipe_errors();
  std::vector<ErrorInfo> all(of_recipes.begin(), of_recipes.end());
  all.insert(all.end(), kErrors.begin(), kErrors.end());
  return all;
}

const ErrorInfo& info(ErrorCode code) {
  const std::span<const ErrorInfo> rows = code < kUsage ? recipe_errors() : kErrors;
  const auto found = std::ranges::find(rows, code, &ErrorInfo::code);
  assert(found != rows.end());
  return *found;
}

std::string name(ErrorCode code) {
  const std::string digits = std::to_string(static_cast<int>(code));
  return "E" + std::string(4 - digits.size(), '0') + digits;
}

std::optional<ErrorCode> error_code_named(std::string_view text) {
  const std::vector<ErrorInfo> errors = all_errors();
  const auto found =
      std::ranges::find(errors, text, [](const ErrorInfo& error) { return name(error.code); });
  return found == errors.end() ? std::nullopt : std::optional(found->code);
}

}  // namespace runner
