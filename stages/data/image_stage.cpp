#include "stages/data/image_stage.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <torch/cuda.h>
#include <nlohmann/json.hpp>

#include "runner/shared/disk/digest.h"
#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/image_folder.h"
#include "runner/shared/stage/plan_context.h"
#include "runner/shared/text/join.h"
#include "stages/data/fetch_dataset.h"
#include "stages/data/image_transform.h"
#include "stages/data/kept_division.h"
#include "stages/fetch/unpack.h"
#include "stages/machine/memory_meter.h"
#include "stages/plan/memory_budget.h"

namespace stages {
namespace {

/// Returns a line with the number of classes that share a caption with another class; empty if
/// there are none.
std::string shared_captions(const ImageList& list) {
  std::map<std::int64_t, std::int64_t> first_class;  // by caption
  std::set<std::int64_t> sharing;
  std::optional<std::int64_t> example;
  for (const std::vector<ImageFile>& part : list.parts) {
    for (const ImageFile& file : part) {
      for (const std::int64_t caption : list.captions.of.at(static_cast<std::size_t>(file.facts))) {
        const std::int64_t first = first_class.emplace(caption, file.label).first->second;
        if (first == file.label) continue;
        sharing.insert({first, file.label});
        if (!example) example = caption;
      }
    }
  }
  if (!example) return "";
  return std::to_string(sharing.size()) + " of " + std::to_string(list.classes.size()) +
         " classes share a caption with another class, such as '" +
         list.captions.texts.at(static_cast<std::size_t>(*example)) + "'";
}

using runner::StageError;

constexpr std::int64_t kMostOnDisk = std::int64_t{64} << 30;

/// Returns the option that is responsible for an error in a list.
std::string blamed_option(const runner::Diagnostic& problem) {
  return problem.pointer.empty() ? "/root" : problem.pointer;
}

/// Reports an error in a list at `option`, such as "/labels/columns".
void report_at(runner::ConfigReader& reader, std::string_view option,
               const runner::Diagnostic& problem) {
  option.remove_prefix(1);
  const std::size_t slash = option.find('/');
  if (slash == option.npos) return reader.fail(option, problem.code, problem.message, problem.help);
  report_at(reader.section(option.substr(0, slash)), option.substr(slash), problem);
}

/// Returns the maximum amount of memory that caches may use: half of what is currently free.
std::int64_t most_for_cache() {
  return std::min(host_memory().bytes, kilobytes_field("/proc/meminfo", "MemAvailable")) / 2;
}

/// Creates the store for images cut to size with these options.
std::shared_ptr<ImageStore> image_store(const ImageDatasetOptions& images) {
  ImageDatasetOptions of_pixels = images;
  of_pixels.mean = {};  // normalization is applied later
  of_pixels.standard_deviation = {1, 1, 1};
  return std::make_shared<ImageStore>(kMostOnDisk, transform_json(of_pixels));
}

/// Adds the validation images to the training images, in the order of `before`.
void join_validation(ImageList& images, const std::vector<ImageFile>& before) {
  std::unordered_set<std::string> names;
  for (const Part part : {Part::kTrain, Part::kValidation}) {
    for (const ImageFile& file : images[part]) names.insert(file.name);
    images[part].clear();
  }
  for (const ImageFile& file : before)
    if (names.contains(file.name)) images[Part::kTrain].push_back(file);
}

class ImageStage final : public runner::Stage {
 public:
  /// `list` is nullopt if the images must be obtained first.
  ImageStage(ImageOptions options, ImageSource source, std::optional<ImageList> list)
      : options_(std::move(options)), source_(std::move(source)), list_(std::move(list)) {}

  std::optional<runner::Outputs> plan(const runner::Inputs&,
                                      runner::PlanContext& context) override {
    if (list_) return std::nullopt;
    if (source_.foresee)
      return parts_of(drawn(source_.foresee(), context), context, /*is_recorded=*/false);
    throw StageError(runner::ErrorCode::kMissingFolder,
                     "the data has not been fetched, and planning does not fetch it")
        .at("/root")
        .with_help("fetch it with `retort data fetch`, or use `retort run`, which fetches it");
  }

  runner::Outputs run(const runner::Inputs&, runner::RunContext& context) override {
    if (!list_) {
      source_.obtain(context);
      list_ = listed();
    }
    drawn_by_ = drawn_by(*list_, context);
    return parts_of(divided(*list_, context), context, /*is_recorded=*/true);
  }

  std::string fingerprint() const override {
    return list_ ? stages::fingerprint(*list_) + kept_ : "";
  }

  bool uses_seed() const override {
    const bool splits = (source_.split && !(list_ && list_->divided)) || source_.folds;
    return changes_images(options_.images.augment) || source_.captions.size() > 1 ||
           (splits && !source_.split_seed);
  }

 private:
  ImageList listed() const {
    auto list = source_.list();
    if (list) return *std::move(list);
    const runner::Diagnostic& first = list.errors().front();
    throw StageError(first.code, first.message).at(blamed_option(first)).with_help(first.help);
  }

  std::uint64_t split_seed(const runner::RunContext& context) const {
    return source_.split_seed ? static_cast<std::uint64_t>(*source_.split_seed)
                              : context.node().seed;
  }

  bool is_split(const ImageList& list) const { return source_.split && !list.divided; }
  bool is_drawn(const ImageList& list) const { return is_split(list) || source_.folds; }

  ImageList drawn(ImageList images, const runner::RunContext& context) const {
    if (is_split(images)) {
      const std::vector<ImageFile> before = images[Part::kTrain];
      split(images, *source_.split, split_seed(context));
      if (source_.folds) join_validation(images, before);
    }
    if (source_.folds) take_fold(images, *source_.folds, split_seed(context));
    return images;
  }

  /// Returns a description of the options that determine the division of `list`.
  std::string drawn_by(const ImageList& list, const runner::RunContext& context) const {
    std::vector<std::string> texts;
    if (!source_.divided_by.empty()) texts.push_back(source_.divided_by);
    if (list.divided) texts.emplace_back("parts as published, or folders for them");
    else if (source_.split) texts.push_back(shares_text(context));
    if (texts.empty()) texts.emplace_back("parts as published");
    if (source_.folds)
      texts.push_back("fold " + std::to_string(source_.folds->index) + " of " +
                      std::to_string(source_.folds->count) + " with seed " +
                      std::to_string(split_seed(context)));
    return runner::join(texts, "; ");
  }

  std::string shares_text(const runner::RunContext& context) const {
    const SplitOptions& shares = *source_.split;
    const auto share = [](double number) { return nlohmann::json(number).dump(); };
    return "shares " + share(shares.train) + ", " + share(shares.validation) + ", " +
           share(shares.test) + " with seed " + std::to_string(split_seed(context));
  }

  /// Divides the listed images as an earlier run of this stage did or, failing that, according to
  /// the options. Removes from the list images that the earlier run did not have.
  ImageList divided(ImageList& list, runner::RunContext& context) {
    ImageList images = drawn(list, context);
    if (context.node().earlier.empty()) return images;
    const auto kept =
        division_to_keep(division_of(images, list, drawn_by_), is_drawn(list), context);
    if (!kept) return images;
    keep_only(list, *kept);
    images = divided_as(list, *kept);
    // A new division of the remaining images equals the kept one, unless something other than the
    // set of images has changed.
    const bool is_as_drawn =
        has_same_parts(*kept, division_of(drawn(list, context), list, drawn_by_));
    if (!is_as_drawn) kept_ = ", divided as " + runner::sha256(to_gzip(*kept));
    return images;
  }

  runner::Outputs parts_of(ImageList images, runner::RunContext& context, bool is_recorded) {
    if (!images.ignored.empty())
      context.say("folders next to the part folders are not used: " +
                  runner::join(images.ignored, ", "));
    if (source_.look) source_.look(images, context);
    images.captions = compose_captions(source_.captions, images.facts);
    const auto list = std::make_shared<const ImageList>(std::move(images));
    if (is_recorded)
      context.divided([list, rest = left_out(*list_, *list), by = drawn_by_] {
        return to_gzip(division_of(*list, rest, by));
      });
    const auto count = [&](Part part) { return std::to_string((*list)[part].size()); };
    context.say(std::to_string(list->classes.size()) +
                (list->has_label_sets ? " labels; "
                 : list->has_targets  ? " targets; "
                                      : " classes; ") +
                count(Part::kTrain) + " images for training, " + count(Part::kValidation) +
                " for validation, " + count(Part::kTest) + " for test");
    if (source_.folds)
      context.say("the validation images are fold " + std::to_string(source_.folds->index) +
                  " of " + std::to_string(source_.folds->count) + ", counting from 0");
    for (const std::string& note : list->notes) context.say(note);
    report_missing("train", list->no_train, context);
    report_missing("test", list->no_test, context);
    if (const auto& captions = list->captions.texts; !captions.empty()) {
      context.say(std::to_string(captions.size()) +
                  (captions.size() == 1 ? " caption: '" : " captions; the first is '") +
                  captions.front() + "'");
      const std::string shared = list->has_label_sets ? "" : shared_captions(*list);
      if (!shared.empty()) context.say(shared);
    }
    if (const std::string not_taken = list->not_taken.text(); !not_taken.empty())
      context.say(not_taken);
    return image_datasets({list, list, list}, options_, context);
  }

  /// Reports why a part is missing. Throws if another stage uses that part.
  static void report_missing(const char* part, const std::optional<runner::Diagnostic>& why,
                             runner::RunContext& context) {
    if (!why) return;
    if (context.node().wants(part))
      throw StageError(why->code, why->message).at(blamed_option(*why)).with_help(why->help);
    context.say(why->message);
  }

  const ImageOptions options_;
  const ImageSource source_;
  std::optional<ImageList> list_;
  // Identifies the kept division if a new draw would differ from it; otherwise empty.
  std::string kept_;
  std::string drawn_by_;  // set once list_ is divided
};

}  // namespace

runner::Result<std::unique_ptr<runner::Stage>> image_stage(runner::ConfigReader& reader,
                                                           ImageOptions options,
                                                           ImageSource source) {
  std::optional<ImageList> list;
  if (!source.obtain) {
    auto listed = source.list();
    if (listed) list = *std::move(listed);
    if (list && list->not_taken.count_other_images() > 0 &&
        options.images.on_corrupt == OnCorrupt::kStop) {
      const runner::Diagnostic problem = runner::other_images_error(options.root, list->not_taken);
      reader.fail("root", problem.code, problem.message, problem.help);
    }
    if (!list)
      for (const runner::Diagnostic& problem : listed.errors())
        report_at(reader, blamed_option(problem), problem);
  }
  if (auto errors = reader.finish(); !errors.empty()) return errors;
  options.images.stage = reader.pointer();
  return std::unique_ptr<runner::Stage>(
      std::make_unique<ImageStage>(std::move(options), std::move(source), std::move(list)));
}

runner::Outputs image_datasets(
    const std::array<std::shared_ptr<const ImageList>, kSplitParts>& lists,
    const ImageOptions& options, runner::RunContext& context) {
  ImageDatasetOptions images = options.images;
  if (images.loader.pinned &&
      !(context.node().device.starts_with("cuda") && torch::cuda::is_available())) {
    context.say("loader.pinned has no effect: nothing is copied to a GPU");
    images.loader.pinned = false;
  }
  context.debug("opened '" + lists.front()->root.string() +
                "'; loader: " + std::to_string(images.loader.workers) + " threads; image cache: " +
                (options.cache_mib ? std::to_string(*options.cache_mib) + " MiB"
                                   : "the memory that plans leave free"));
  if (images.subject) images.watch = std::make_shared<SubjectWatch>(*images.subject);
  images.reduced = std::make_shared<ImageFindings>();
  if (options.cache_on_disk) images.store = image_store(images);
  std::int64_t memory = options.cache_mib ? *options.cache_mib << 20 : most_for_cache();
  const auto part = [&](Part part) {
    const ImageList& list = *lists[static_cast<std::size_t>(part)];
    const std::int64_t bytes =
        std::min(memory, bytes_to_keep(list, part, images, /*trains=*/part == Part::kTrain));
    memory -= bytes;
    // The memory left for the cache is known only after all stages are planned.
    const auto cache = bytes == 0 ? nullptr
                                  : std::make_shared<ImageCache>(options.cache_mib ? bytes : 0,
                                                                 /*most_bytes=*/bytes);
    return std::make_shared<const ImageDataset>(lists[static_cast<std::size_t>(part)], part, images,
                                                context.node().seed, cache);
  };
  runner::Outputs outputs = {{"train", part(Part::kTrain)}};
  outputs["test"] = part(Part::kTest);
  const ImageList& validation = *lists[static_cast<std::size_t>(Part::kValidation)];
  if (!validation[Part::kValidation].empty()) outputs["validation"] = part(Part::kValidation);
  return outputs;
}

void read_split(runner::ConfigReader& reader, ImageSource& source) {
  SplitOptions& split = source.split.emplace();
  reader.read("train", split.train);
  reader.read("validation", split.validation);
  reader.read("test", split.test);
  reader.read("seed", source.split_seed);
}

std::optional<FoldOptions> read_folds(runner::ConfigReader& reader) {
  runner::ConfigReader* const folds = section_or_null(reader, "folds");
  if (!folds) return std::nullopt;
  FoldOptions options;
  folds->read("count", options.count);
  folds->read("index", options.index);
  return options;
}

std::function<void(runner::RunContext&)> read_download(runner::ConfigReader& reader,
                                                       std::string_view name,
                                                       const std::filesystem::path& root) {
  bool download = false;
  reader.read("download", download);
  if (!download || has_dataset(name, root)) return {};
  return [name = std::string(name), root](runner::RunContext& context) {
    fetch_dataset(name, root, callbacks_of(context));
  };
}

}  // namespace stages
