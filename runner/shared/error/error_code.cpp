#include "runner/shared/error/error_code.h"

#include <algorithm>
#include <array>
#include <cassert>

namespace runner {
namespace {

using enum ErrorCode;
constexpr auto kRecipe = ExitCode::kBadRecipe;

constexpr auto kErrors = std::to_array<ErrorInfo>({
    {kYamlSyntax, kRecipe, "the text is not YAML",
     "The file cannot be read as YAML; nothing after this place was read.", "train: {epochs: 3",
     "Close open brackets and quotes, and indent all entries of a mapping equally."},
    {kDuplicateKey, kRecipe, "a mapping has the same key twice",
     "A mapping has a key twice. YAML forbids this, and the first value would be silently lost.",
     "train: {epochs: 3, epochs: 5}", "Keep one of them; the note shows the other."},
    {kSecondDocument, kRecipe, "the file holds a second YAML document",
     "A line '---' starts another YAML document, but a recipe is one document.",
     "seed: 1\n---\nseed: 2", "Remove the line, or move what follows it into its own file."},
    {kUnknownTag, kRecipe, "a YAML tag that recipes do not use",
     "A value has a tag that recipes do not use, or one that does not fit it.",
     "root: !path photos", "Remove the tag; put the value in quotes if it is a string."},
    {kNonStringKey, kRecipe, "a mapping key is null, a list or a mapping",
     "A key is null, a list or a mapping. Keys are strings, numbers, or true and false.",
     "{[1, 2]: x}", "Write the key in quotes."},
    {kAliasBomb, kRecipe, "anchors and aliases expand to too many values",
     "Anchors and aliases, or interpolations, refer to each other so often that a small file "
     "becomes huge.",
     "b: [*a, *a, *a, *a], c: [*b, *b, *b, *b], and so on", "Write fewer aliases of aliases."},
    {kInvalidUtf8, kRecipe, "the text is not UTF-8",
     "The file holds bytes that are not UTF-8 text.", "a file saved as Latin-1",
     "Save it as UTF-8."},
    {kNestingTooDeep, kRecipe, "values are nested too deeply",
     "Lists, mappings or interpolations are nested more than 64 levels deep.", "[[[[[[[[ and so on",
     "Nest the values less deeply: no option needs such a depth."},
    {kNumberOutOfRange, kRecipe, "a number has too many digits",
     "An integer has more than 4,300 digits.", "seed: 1000… (5,000 zeros)",
     "Write it in quotes if it is a name."},
    {kFileTooLarge, kRecipe, "a recipe file is too large",
     "A recipe file is larger, or holds more values, than any recipe needs.",
     "a list of a million numbers",
     "Put the data into a data file, and name that file in the recipe."},
    {kYamlTrap, kRecipe, "text without quotes that YAML 1.1 reads as something else",
     "Recipes follow YAML 1.1, which reads this text without quotes as another value than it "
     "seems. A warning; an error with --strict.",
     "answer: yes    (true)\nmode: 010    (8)\ntime: 1:30    (90)",
     "Write what you mean: text in quotes, a value plainly (true, 8, 90)."},

    {kRecipeNotFound, ExitCode::kMissingInput, "no recipe of that name",
     "There is no recipe of that name, or a file that a recipe names does not exist.",
     "retort run clasify",
     "The message lists the folders that were searched. Name your own recipe file with its "
     "extension: flowers.yaml."},
    {kOverrideSyntax, kRecipe, "an override cannot be read",
     "An argument on the command line cannot be read as an override.",
     "train.optimizer.betas=[0.9,0.99",
     "Close brackets and quotes, and put the word in single quotes to protect it from the shell."},
    {kOverrideUnknownKey, kRecipe, "an override sets a key that does not exist",
     "An override changes a key that is neither in the recipe nor in the schema of its kind, so it "
     "would set nothing.",
     "retort run classify train.epoch=3", "Correct the key; +key=value adds a new one."},
    {kOverrideExists, kRecipe, "an override adds a key that exists",
     "+key=value adds a key, but the key already exists.", "retort run classify +seed=3",
     "Leave out the + to change the value; ++ adds or changes it."},
    {kUnknownGroupOption, kRecipe, "a config group has no such option",
     "The group's folder has no file of that name.", "retort run classify model=tinny",
     "Choose one of those listed, or add the folder that has it with --config-dir."},
    {kUnknownGroup, kRecipe, "no such config group",
     "There is no folder of options with that name.", "retort run classify modle=tiny",
     "Correct the name: a group is a folder below recipes/."},
    {kBadDefaults, kRecipe, "a defaults list is not valid",
     "An item of a defaults list is not valid, or contradicts another.",
     "defaults: [{data: a, model: b}]",
     "Write one item per line: a name, `group: option` or `override group: option`."},
    {kInterpolationUnknown, kRecipe, "an interpolation names a key that does not exist",
     "${...} names a key that does not exist.", "name: run_${modle.name}",
     "Correct the name; it starts at the top of the recipe, or at its own place with leading "
     "dots."},
    {kInterpolationCycle, kRecipe, "interpolations refer to each other in a circle",
     "Values refer to each other in a circle, so none of them can be resolved.", "a: ${b}\nb: ${a}",
     "Give one of them its own value."},
    {kInterpolationSyntax, kRecipe, "an interpolation cannot be read",
     "A string contains '${' but is not a valid interpolation.", "name: run_${model.name",
     "Close the brace; write '\\${' if '${' is meant as text."},
    {kUnknownResolver, kRecipe, "no such resolver",
     "${name:...} calls a resolver that does not exist.", "root: ${env:HOME}",
     "Use one of the available ones, such as ${oc.env:HOME}."},
    {kMissingEnvironment, kRecipe, "an environment variable is not set",
     "${oc.env:NAME} reads an environment variable that is not set.", "root: ${oc.env:PHOTOS}",
     "Set it, or give a default: ${oc.env:PHOTOS,photos}."},
    {kMandatoryValue, kRecipe, "a value marked ??? was not given",
     "The recipe marks this value with ???: it has no good default and must be given.",
     "retort run classify    (data.root is ?\?\?)",
     "Give it: retort run classify data.root=photos."},
    {kBadAlias, kRecipe, "an alias is not valid",
     "An entry of `aliases` has an unknown form, or does not accept the given value.",
     "aliases: {lr: 3}",
     "Write a key, a list of keys, a mapping from values to overrides, or {instead: what to do}."},
    {kCannotDelete, kRecipe, "an override deletes something that does not exist",
     "~key names a key that does not exist, or ~key=value names a value that the key does not "
     "have.",
     "retort run classify ~train.epoch",
     "Correct the key; leave the override out if nothing is to be deleted."},
    {kContainerClash, kRecipe, "a list and a mapping are in the same place",
     "One file or override has a mapping where another has a list or a single value.",
     "retort run classify train=[1,2]",
     "Set a key inside the mapping, or replace all of it with ++."},
    {kNeedsMultirun, kRecipe, "an override lists several values",
     "An override lists several values, but this is a single run.",
     "retort run classify seed=1,2,3",
     "Run them all with -m; write a list as [1,2,3], and a string with a comma in quotes."},
    {kDefaultsCycle, kRecipe, "defaults lists include each other in a circle",
     "Recipes name each other in their defaults lists.",
     "a.yaml: defaults: [b]\nb.yaml: defaults: [a]",
     "Move the keys that both need into a third file."},
    {kForeignOption, kRecipe, "an option of the original program has no meaning here",
     "The recipe reproduces a published program, but this option of it has no meaning here.",
     "retort run finetune use_wandb=true", "The help says what to do instead."},
    {kBadFunctionCall, kRecipe, "a function of an override has invalid arguments",
     "A function of an override does not accept the arguments given.", "seed=range(1,10,0)",
     "Check the named arguments; put text that looks like a call in quotes."},
    {kNestedSweep, kRecipe, "a sweep is inside another value",
     "Several values are listed inside a list or mapping. A sweep changes a whole value.",
     "key=[choice(1,2)]", "List whole values: key=[1],[2]."},
    {kBadSweep, kRecipe, "a sweep cannot be expanded into runs",
     "The values of a sweep cannot be listed one by one.", "seed=interval(0,1)",
     "List them: key=a,b,c, or key=range(0,10)."},
    {kRepeatedTrial, kRecipe, "two runs of a sweep are the same",
     "Two runs of a sweep have the same settings, so the second would repeat the first.",
     "seed=1,1", "Remove one of the values."},
    {kBadEdit, kRecipe, "a list cannot be changed like that",
     "append, prepend, insert, remove_at or remove_value cannot change this value.",
     "layers=remove_at(7)    (of three)",
     "Change a list, within its length; or write the whole list."},
    {kDeprecatedKey, kRecipe, "an interpolation marks its key as deprecated",
     "A key was renamed (oc.deprecated), and something still reads the old name. A warning.",
     "rate: ${oc.deprecated:learning_rate}\nlr: ${rate}", "Read the new key."},

    {kUnknownKey, kRecipe, "the schema does not know this key",
     "A stage, or a mapping in it, has a key that its kind does not declare, so nothing would read "
     "it.",
     "train: {epoch: 3}",
     "Correct the key; retort explain train.supervised lists the keys of a kind."},
    {kWrongType, kRecipe, "a value has the wrong type",
     "A value has the wrong type for its option: text for a number, a single value for a list.",
     "train: {epochs: many}", "Write what is expected; \"5\" in quotes is text, 5 is a number."},
    {kOutOfRange, kRecipe, "a number is outside its range",
     "A number is smaller or larger than the option takes.", "train: {epochs: 0}",
     "Stay within the range; retort explain train.epochs shows it."},
    {kNotAllowedValue, kRecipe, "a value is not one of those allowed",
     "The option accepts only certain values, and this is not one of them.",
     "memory: {precision: fp8}", "Choose one of those listed."},
    {kMissingKey, kRecipe, "a required key is missing",
     "An option without a default was not given.", "data: {kind: data.image_folder}    (no root)",
     "Write it, or choose a group option that sets it."},
    {kUnknownKind, kRecipe, "no stage is of this kind",
     "The `kind` of a stage or of a mapping in it does not exist.",
     "train: {kind: train.supervisd}", "Correct it; retort stages lists the kinds of stages."},
    {kBadPattern, kRecipe, "a string does not have the required form",
     "A string does not have the form that the option requires.", "device: gpu",
     "Write it in the form that the help shows."},
    {kBadLength, kRecipe, "a string, list or mapping is too short or too long",
     "A string, list or mapping has too few or too many characters, items or keys.",
     "train: {optimizer: {betas: [0.9]}}", "Write as many as the message says."},
    {kDuplicateItem, kRecipe, "a list holds the same item twice",
     "The items of this list must differ, but one appears twice.", "device: {fallback: [cpu, cpu]}",
     "Remove one of them."},
    {kNoAlternative, kRecipe, "a value matches none of the allowed forms",
     "The option accepts several forms, and the value matches none of them.",
     "train: {schedule: {warmup_steps: soon}}", "Write one of the forms listed."},
    {kForbidden, kRecipe, "a value is not allowed here", "The schema rules this value out.",
     "a value that another option excludes",
     "Read the description of the option: retort explain KEY."},
    {kBadName, kRecipe, "a name that cannot be a file name",
     "Names of stages, runs and items are used as file names, and this one cannot be.", "name: a/b",
     "Use letters, digits, '.', '_' and '-', at most 120, and no leading dot."},
    {kUnavailableKind, kRecipe, "a kind that this program cannot run",
     "The recipe is valid, but this program does not contain a kind that the recipe uses.",
     "memory: {precision: fp16}",
     "Leave it out, or use a program that contains it; retort stages lists the kinds."},
    {kOptionConflict, kRecipe, "two options contradict each other",
     "Two options contradict each other, or an option and the data.",
     "model: {image_size: 50, patch_size: 14}", "Change one of them; the message names both."},
    {kUnreadOption, ExitCode::kInternalError, "an option that no stage reads",
     "A stage did not read an option that its schema declares. This is a bug in Retort, not in the "
     "recipe.",
     "a kind under development", "Leave the option out."},

    {kUnwiredPort, kRecipe, "an input port has no output to take",
     "A stage needs an input that no stage has as an output.",
     "a recipe with `train` and without `model`",
     "Add a stage with that output; retort stages shows the ports of all kinds."},
    {kAmbiguousPort, kRecipe, "an input port could take several outputs",
     "Several outputs fit an input, but none has its name.", "two stages of kind model.*",
     "Name it: inputs: {model: teacher.model}."},
    {kUnknownPort, kRecipe, "no such port", "`inputs` names a stage or a port that does not exist.",
     "inputs: {trian: data.train}", "Correct it; retort stages shows the ports of all kinds."},
    {kPortTypeMismatch, kRecipe, "a port is wired to another type",
     "`inputs` wires an output to an input of another type.", "inputs: {model: data.train}",
     "Wire outputs to inputs of the same type."},
    {kGraphCycle, kRecipe, "stages wait for each other in a circle",
     "Stages wait for each other's output, so none can start.",
     "two stages that name each other in `inputs`", "Remove one of the wires."},
    {kBadForeach, kRecipe, "foreach cannot be understood",
     "`foreach` makes too many nodes, or nodes with names that are too long.",
     "foreach: {seed: [a list of 100,000]}", "Give it shorter lists and shorter values."},
    {kDuplicateNode, kRecipe, "two nodes have the same name",
     "Two items of `foreach` would give their nodes the same name.",
     "foreach: {pair: [[0, 1], [0, 1]]}", "Give the items different values."},
    {kUnknownItem, kRecipe, "${item.x} names a key that foreach does not have",
     "${item.x} names a key that the stage's `foreach` does not have.",
     "foreach: {pair: [[0, 1]]}\nclasses: ${item.pairs}", "Use a key of `foreach`."},
    {kUnknownNode, ExitCode::kUsage, "the graph has no such node",
     "--only names a node that the recipe's graph does not have.",
     "retort run classify --only trian", "Correct it; retort graph draws the nodes."},

    {kUsage, ExitCode::kUsage, "the command line cannot be understood",
     "The command line is not understood: a flag or a word is missing or unknown.",
     "retort run classify --smok", "retort VERB --help shows how it is used."},
    {kUnknownVerb, ExitCode::kUsage, "no such verb", "The first word is not a verb.",
     "retort rnu classify", "retort --help lists the verbs."},

    {kMissingFolder, ExitCode::kMissingInput, "a folder does not exist",
     "A folder that the data stage reads does not exist.", "data.root=no/such/folder",
     "Correct the path: it is relative to the working directory."},
    {kEmptyClass, ExitCode::kBadData, "a class has no images",
     "The folder of a class holds no images, so the class could not be learned.",
     "photos/cats without a file", "Fill the folder, or remove it."},
    {kMissingImage, ExitCode::kMissingInput, "an image file does not exist",
     "An image cannot be opened.", "a link to a file that is gone",
     "Restore the file, or remove the link."},
    {kCorruptImage, ExitCode::kBadData, "an image file is damaged",
     "An image is damaged: it ends early, or its contents are inconsistent.",
     "a JPEG cut off by a full disk",
     "Replace it; data.on_corrupt=skip leaves such images out and counts them."},
    {kImageTooLarge, ExitCode::kBadData, "an image has too many pixels",
     "An image has more than 178 million pixels, which is more than a decoder should accept.",
     "a scan of 20,000 by 20,000 pixels", "Make it smaller, or leave it out."},
    {kLabelOutOfRange, ExitCode::kBadData, "a label is outside the model's classes",
     "The classes of the data do not match the model's outputs, or the classes it was trained on.",
     "model.num_classes=10 and a folder of 102 classes",
     "Leave model.num_classes out: the classes are counted."},
    {kOutsideRoot, ExitCode::kBadData, "a file is outside the data's root",
     "A link leads out of the data's root.", "photos/cats/1.jpg -> another folder",
     "Copy the files, or set data.allow_outside=true if the link is intended."},
    {kTooFewSamples, ExitCode::kBadData, "there are too few samples",
     "A part of the data has no samples, or fewer than are needed.",
     "data.split.test=0.001 of 200 images",
     "Give that part more images, or make the batch smaller."},
    {kUnsupportedImage, ExitCode::kBadData, "a file is not an image that can be read",
     "A file is not JPEG, PNG or WebP, or cannot be converted to RGB.", "a TIFF named photo.jpg",
     "Convert it; data.on_corrupt=skip leaves such files out and counts them."},
    {kFolderExists, ExitCode::kCannotCreate, "an output folder already exists",
     "The folder to write already exists, and nothing is overwritten.",
     "retort data make image_folder --out photos    (twice)",
     "Choose another name, or remove the folder."},
    {kMissingAnnotations, ExitCode::kMissingInput, "an annotation file does not exist",
     "An annotation file (which image shows what) is not in the data set's folder.",
     "data.root=data    (data/flowers-102 without setid.mat)",
     "Put it there (it is published with the images), or correct data.root."},
    {kBadAnnotations, ExitCode::kBadData, "an annotation file is wrong",
     "An annotation file (which image shows what) is truncated, has an unexpected format, or "
     "contradicts itself or another file.",
     "images.txt with a number twice", "Use the file as published."},
    {kDamagedWeights, ExitCode::kBadData, "a weights file is damaged",
     "A weights file is truncated or inconsistent, has an unknown format, or contains code that "
     "would be run.",
     "a download that broke off",
     "Fetch it again and compare its checksum; `retort resume RUN` recreates a run's checkpoint."},
    {kMissingWeights, ExitCode::kMissingInput, "a weights file does not exist",
     "The weights are not where the recipe says.", "model.weights=weights/none.safetensors",
     "Put them there, fetch them (`retort data fetch hf:ORG/NAME`), or set model.weights to where "
     "they are."},
    {kUnknownInput, ExitCode::kBadData, "a checkpoint does not describe its network's input",
     "The checkpoint does not describe how an image becomes the input of its network.",
     "a network that was trained on something other than images",
     "Predict with a network that was trained on images; evaluate this one with `retort "
     "evaluate`."},
    {kDownloadFailed, ExitCode::kDeviceUnavailable, "a file could not be fetched",
     "A file could not be fetched: its server was not reached, or the connection kept breaking.",
     "no network, or one that needs https_proxy",
     "Run the same command again: it continues from what was received. Or download the file "
     "yourself and use --from-file."},
    {kNotPublished, ExitCode::kMissingInput, "a server does not have a file, or denies access",
     "The server answers that it does not have the file, or that access is denied.",
     "retort data fetch hf:openai/clip-vit-base-patch23",
     "Check the name; a private file needs your token in HF_TOKEN."},
    {kWrongChecksum, ExitCode::kBadData, "a file is not the published one",
     "A fetched or given file does not have the published checksum. Nothing of it is used.",
     "an archive that a proxy truncated",
     "Fetch it again; if that does not help, from another server."},
    {kBadArchive, ExitCode::kBadData, "an archive is damaged, or has unexpected contents",
     "An archive cannot be unpacked, or it contains a link, a device, a path out of its folder, or "
     "far more than the data set.",
     "an archive that holds ../../.bashrc", "Fetch it again from where it is published."},
    {kMissingFile, ExitCode::kMissingInput, "a file does not exist or cannot be read",
     "A file named on the command line, or by the entry of Python code, does not exist or cannot "
     "be "
     "read.",
     "retort data fetch cub200 --from-file no/such.tgz",
     "Correct the path: it is relative to the working directory."},

    {kStageFailed, ExitCode::kRunFailed, "a stage failed", "A stage failed; the message says why.",
     "a tensor of a wrong shape", "See log.txt in the run folder for details."},
    {kLossNotFinite, ExitCode::kRunFailed, "the loss is not a number",
     "The loss became infinite or not a number, and the training cannot recover from that.",
     "train.optimizer.learning_rate=100",
     "Lower the learning rate, set train.gradient_clip_norm, or look at the samples named."},
    {kDeviceUnavailable, ExitCode::kDeviceUnavailable, "the device is not available",
     "The device that the recipe selects does not exist, or no GPU has enough free memory for the "
     "run.",
     "device=cuda:3 on a machine with one GPU",
     "retort devices lists the GPUs; device.wait_for_gpu=true waits for one, device=cpu always "
     "works."},
    {kWorkerDied, ExitCode::kRunFailed, "the worker died",
     "The worker ended without an explanation: it was killed, or it crashed.",
     "the kernel killed it because memory ran out",
     "Read the last lines of its output; make the batch smaller if memory ran out."},
    {kWorkerMismatch, ExitCode::kInternalError, "worker and retort are of different builds",
     "retort and retort-worker were not built together.", "one of them was copied by hand",
     "Install both from one build."},
    {kOutOfMemory, ExitCode::kRunFailed, "the device ran out of memory",
     "A step needs more memory than the device has or memory.budget allows; if that is known in "
     "advance, nothing runs.",
     "train.batch_size=4096 on a small GPU",
     "`retort plan` shows where every byte goes and what would fit; make the batch or the images "
     "smaller, or use a device with more memory."},
    {kInterrupted, ExitCode::kInterrupted, "the run was interrupted",
     "The run was stopped by a signal.", "Ctrl-C",
     "Look in the run folder for what was written before."},
    {kProtocol, ExitCode::kInternalError, "the worker sent a message that cannot be understood",
     "retort and retort-worker did not understand each other. This is a bug in Retort.",
     "a message cut in half",
     "Install both from one build; log.txt in the run folder has the details."},
    {kWorkerMissing, ExitCode::kInternalError, "the worker program is not installed",
     "retort-worker is neither next to retort nor in its libexec folder.", "only retort was copied",
     "Install both; retort doctor shows where retort looks for it."},
    {kNotDeterministic, ExitCode::kRunFailed, "an operation may give different bits the next time",
     "LibTorch or cuBLAS does not guarantee that this operation gives the same bits every time. "
     "'determinism: strict', the default, refuses it; 'determinism: warn' warns.",
     "a cumulative sum of floats on a GPU",
     "Set determinism: warn to continue with a warning, or determinism: off; or run on the CPU, "
     "where most operations are deterministic."},
    {kNothingCompared, ExitCode::kRunFailed, "a check found nothing to compare",
     "retort doctor determinism compares the tensors of trainings, and retort certify their "
     "gradients, but the recipe trains nothing.",
     "retort doctor determinism on a recipe that only evaluates",
     "Use a recipe with a train stage."},
    {kDeviceLost, ExitCode::kDeviceUnavailable, "a device failed",
     "CUDA reported an error after which the same process cannot use the GPU, such as an illegal "
     "access, an uncorrectable memory error, or a lost GPU. The worker is restarted from the last "
     "checkpoint up to memory.max_retries times, as long as each attempt gets further than the one "
     "before.",
     "a GPU that has fallen off the bus",
     "Continue with retort resume. If it fails again at the same place, run it on another device."},
    {kTerminated, ExitCode::kTerminated, "the program was stopped by a signal",
     "Another program, or the system during shutdown, asked it to end.",
     "kill, or a cluster's time limit", "Look in the run folder for what was written before."},
    {kUntrustedCode, ExitCode::kBadRecipe, "code is not trusted",
     "A recipe names Python code, or commands of its own, that you have not allowed to run on this "
     "machine, or that has changed since you allowed it. Such code may do anything that you may "
     "do.",
     "model.entry=my_net.py:make    (a file that was just downloaded)",
     "Read it, then allow it: retort trust my_net.py. retort trust --list shows what is allowed."},
    {kNoPython, ExitCode::kDeviceUnavailable, "Python cannot host the worker",
     "A recipe names Python code, but there is no Python interpreter, or it has no torch, or "
     "another version of it than Retort is built for.",
     "python=venv/bin/python    (an environment without torch)",
     "Install torch into that environment, or name another interpreter with python=…."},
    {kHookFailed, ExitCode::kRunFailed, "a command of hooks failed",
     "A command of the recipe's hooks could not be started, ended with an error, or took longer "
     "than hooks.timeout_seconds. The run itself goes on.",
     "hooks: {after_run: [[./notify.sh]]}    (a script that is not executable)",
     "Run the command yourself; it gets the event as JSON on its standard input."},
    {kMeasuredPlan, ExitCode::kRunFailed, "a plan needs a real step",
     "Python code needs the values of tensors, as .item() or a boolean mask do, or an operator "
     "that "
     "has no dry run. A plan of it is an upper bound from steps that are run on the device. Other "
     "values may need other memory. A warning; an error with --strict, and where the device is not "
     "in this machine.",
     "model.arguments.model_name=gemma4_vit_167m",
     "Compute without values, as torch.where does in place of a boolean mask; or plan on the "
     "device "
     "itself, without --strict."},
    {kRankLost, ExitCode::kRunFailed, "a rank of the run has ended",
     "The processes that train together (device.count) need each other: when one ends, the others "
     "end too. That one's own error, or the signal that killed it, says why.",
     "one of two workers was killed", "Continue from the last checkpoint with retort resume."},
    {kNoMeeting, ExitCode::kDeviceUnavailable, "the ranks of a run cannot meet",
     "The processes that a launcher has started (torchrun, srun, mpirun) find each other at "
     "MASTER_ADDR and MASTER_PORT. One of them did not come, came twice, belongs to another job, "
     "or "
     "would run another recipe or other programs.",
     "WORLD_SIZE=2 RANK=1 MASTER_ADDR=node1 MASTER_PORT=29500 retort run classify    (without "
     "rank 0)",
     "Start the same command for all ranks at the same time, by one launcher."},
    {kClusterSilent, ExitCode::kDeviceUnavailable, "the cluster's scheduler does not answer",
     "A command of the scheduler, such as squeue, is not installed here, failed, or did not end in "
     "time. Submitted tasks continue by themselves and leave their results in the sweep's folder.",
     "retort sweep classify seed=1,2 --launcher slurm    (on a laptop)",
     "Try the command yourself; then continue with retort sweep resume DIR, which submits nothing "
     "twice."},
    {kClusterRefused, ExitCode::kDeviceUnavailable, "the cluster's scheduler refused a job",
     "The scheduler did not accept the trials of a sweep; the message is its own.",
     "sweep.launcher.partition=none-of-that-name",
     "Correct launch/launcher.json in the sweep's folder, and continue with retort sweep resume "
     "DIR."},

    {kCannotCreate, ExitCode::kCannotCreate, "a file or folder cannot be created",
     "A file or folder cannot be created.", "run.dir in a folder that you may not write to",
     "Choose another folder, or change the folder's permissions."},
    {kCannotWrite, ExitCode::kCannotWrite, "a file or standard output cannot be written",
     "A file or standard output was open, but writing to it failed.", "retort stages >/dev/full",
     "Check the disk; the message says why."},
    {kRunFolderTaken, ExitCode::kCannotCreate, "the folder already contains a run",
     "The folder already contains the record of a run, which is never overwritten.",
     "run.dir=outputs/a    (twice)", "Choose another run.dir, or leave it out."},
    {kDiskFull, ExitCode::kCannotWrite, "the disk is full", "There is no space left on the disk.",
     "outputs/ on a full disk", "Free up space, or choose another place with run.dir."},
    {kRunBusy, ExitCode::kDeviceUnavailable, "the run is still running",
     "Another process is running or resuming this run, and only one may write its record.",
     "retort resume outputs/a    (while it runs)",
     "Wait until it ends, or stop it: on TERM and INT it saves first."},
    {kNoRun, ExitCode::kMissingInput, "the folder does not contain a run",
     "The folder is not one that `retort run` made: it has no .retort/run.json, or its record "
     "cannot be read.",
     "retort resume photos", "Name the folder that `retort run` printed."},
    {kChangedRun, kRecipe, "a run cannot continue or be repeated as another one",
     "A resumed run was given a new value for an option, but its saved state does not fit that "
     "value, or no single recipe would describe the result. Or a run was to be continued, repeated "
     "or evaluated, but its input files, record, checkpoints or kinds of stages have changed "
     "since.",
     "retort resume outputs/a model.hidden_size=64",
     "Leave it unchanged or restore it, add --force if the message offers it, or start a new run."},
    {kNoCheckpoint, ExitCode::kMissingInput, "the run has no checkpoint",
     "The run has no weights to evaluate or predict with: it has not reached its first save, or "
     "they were removed.",
     "retort predict outputs/a photos    (a second after `retort run`)",
     "Train it: retort resume RUN; train.checkpoint sets when it saves."},
    {kTrainedOption, kRecipe, "an option that cannot change once a network is trained",
     "`retort evaluate` and `retort predict` use the trained weights as they are. An option of the "
     "model or the training would have no effect on them, or would not fit them.",
     "retort evaluate outputs/a train.epochs=50",
     "Leave it out, or train again: retort run RUN/.retort/recipe.yaml."},
    {kNoResults, ExitCode::kMissingInput, "the run has no results to show",
     "`retort analyze` shows what a run measured, and `retort compare` the results of evaluated "
     "runs; the record has no such results.",
     "retort compare outputs/a outputs/b    (b was stopped before it was evaluated)",
     "Finish the run with retort resume RUN, or evaluate what it trained with retort evaluate "
     "RUN."},
    {kDamagedRecord, ExitCode::kBadData, "a file of a run's record is damaged",
     "A file of a run's record does not contain what Retort writes there.",
     "nodes/evaluate/metrics.json cut off by a full disk",
     "Evaluate the run again: retort evaluate RUN."},

    {kInternal, ExitCode::kInternalError, "a bug in Retort",
     "Something happened that should be impossible.", "none that is known",
     "Keep the command, the recipe and log.txt: they are needed to find the bug."},
    {kBadSchema, ExitCode::kInternalError,
     "a schema uses a keyword or a form that is not supported",
     "A file in schemas/ breaks the rules of schemas/README.md. Only a changed schema causes this.",
     "an option without a description", "Correct the schema at the place named."},
});

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

std::optional<ErrorCode> error_code_named(std::string_view text) {
  const auto found =
      std::ranges::find(kErrors, text, [](const ErrorInfo& error) { return name(error.code); });
  return found == kErrors.end() ? std::nullopt : std::optional(found->code);
}

}  // namespace runner
