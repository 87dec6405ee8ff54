#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runner/shared/disk/digest.h"
#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/image_folder.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/text/join.h"
#include "stages/data/image_stage.h"
#include "stages/data/kept_division.h"
#include "stages/few_shot/few_shot_list.h"

namespace stages {
namespace {

/// The published number of classes and images of a part; both 0 if unknown.
struct PublishedSize {
  std::size_t classes = 0, images = 0;
};
using PublishedSizes = std::array<PublishedSize, kSplitParts>;

constexpr std::array kFewShotParts = {Part::kTrain, Part::kValidation, Part::kTest};

/// Returns "4 classes and 20 images instead of the published 64 and 38400: …"; empty if both
/// numbers are as published, or if the published ones are unknown.
std::string unlike_published(const PublishedSize& published, std::size_t classes,
                             std::size_t images) {
  if (published.classes == 0 || (classes == published.classes && images == published.images))
    return "";
  return std::to_string(classes) + " classes and " + std::to_string(images) +
         " images instead of the published " + std::to_string(published.classes) + " and " +
         std::to_string(published.images) + ": results cannot be compared with published ones";
}

class FewShotStage final : public runner::Stage {
 public:
  FewShotStage(ImageOptions options, std::array<FewShotPart, kSplitParts> parts,
               const PublishedSizes& published, std::string divided_by)
      : options_(std::move(options)), published_(published), divided_by_(std::move(divided_by)) {
    for (std::size_t i = 0; i < kSplitParts; ++i) {
      places_[i] = std::move(parts[i].place);
      lists_[i] = std::make_shared<const ImageList>(std::move(parts[i].list));
      spare_[i] = std::make_shared<const ImageList>(std::move(parts[i].spare));
    }
  }

  runner::Outputs run(const runner::Inputs&, runner::RunContext& context) override {
    keep_division(context);
    context.divided([lists = lists_, spare = spare_, by = divided_by_] {
      return to_gzip(division_of(lists, spare, by));
    });
    for (std::size_t i = 0; i < kSplitParts; ++i) {
      const ImageList& list = *lists_[i];
      const std::string part(name(kFewShotParts[i]));
      if (places_[i].empty()) continue;
      context.say(part + ": " + std::to_string(list[kFewShotParts[i]].size()) + " images of " +
                  std::to_string(list.classes.size()) + " classes, from " + places_[i]);
      if (const std::string not_taken = list.not_taken.text(); !not_taken.empty())
        context.say(part + ": " + not_taken);
      for (const std::string& note : list.notes) context.say(part + ": " + note);
      const std::string unlike =
          unlike_published(published_[i], list.classes.size(), list[kFewShotParts[i]].size());
      if (!unlike.empty()) context.say(part + ": " + unlike);
    }
    return image_datasets(lists_, options_, context);
  }

  std::string fingerprint() const override {
    std::string all;
    for (const auto& list : lists_) all += stages::fingerprint(*list) + '\n';
    return runner::sha256(all);
  }

  bool uses_seed() const override { return changes_images(options_.images.augment); }

 private:
  void keep_division(runner::RunContext& context) {
    if (context.node().earlier.empty()) return;
    const Division now = division_of(lists_, spare_, divided_by_);
    if (const auto kept = division_to_keep(now, /*by_chance=*/false, context))
      lists_ = divided_as(lists_, spare_, *kept);
  }

  const ImageOptions options_;
  const PublishedSizes published_;
  FewShotLists lists_, spare_;
  std::array<std::string, kSplitParts> places_;
  const std::string divided_by_;
};

/// Describes the options that assign classes to parts.
std::string division_words(const FewShotSource& source) {
  std::string words;
  for (const Part part : kFewShotParts) {
    const auto& candidates = source.candidates[static_cast<std::size_t>(part)];
    words += std::string(name(part)) + " of " +
             (candidates.empty() ? "nothing" : runner::join(candidates, " or ")) + "; ";
  }
  switch (source.classes) {
    case FolderClasses::kAll:
      return words + "all classes";
    case FolderClasses::kAlternating:
      return words + "alternating classes";
    case FolderClasses::kRandom:
      return words + "random classes with seed " + std::to_string(source.split_seed);
  }
  return words;
}

/// Reads a path, a list of paths, or null.
std::vector<std::string> read_candidates(runner::ConfigReader& reader, std::string_view key) {
  std::vector<std::string> paths;
  const runner::Value* const value = reader.raw(key);
  if (value && value->list()) reader.read(key, paths);
  else if (value && value->text()) reader.read(key, paths.emplace_back());
  return paths;
}

PublishedSizes read_published(runner::ConfigReader& reader) {
  PublishedSizes sizes;
  for (std::size_t i = 0; i < kSplitParts; ++i) {
    std::optional<std::vector<std::int64_t>> numbers;
    reader.read(name(kFewShotParts[i]), numbers);
    if (numbers && numbers->size() == 2) {
      sizes[i] = {.classes = static_cast<std::size_t>(numbers->at(0)),
                  .images = static_cast<std::size_t>(numbers->at(1))};
    }
  }
  return sizes;
}

runner::Result<std::unique_ptr<runner::Stage>> create_few_shot(runner::ConfigReader& reader) {
  ImageOptions options = read_image_options(reader);
  FewShotSource source{.root = options.root, .allow_outside = options.allow_outside};
  for (std::size_t i = 0; i < kSplitParts; ++i)
    source.candidates[i] = read_candidates(reader, name(kFewShotParts[i]));
  source.classes = runner::choice<FolderClasses>(reader, "classes",
                                                 {{"all", FolderClasses::kAll},
                                                  {"alternating", FolderClasses::kAlternating},
                                                  {"random", FolderClasses::kRandom}});
  std::int64_t seed = 0;
  reader.read("split_seed", seed);
  source.split_seed = static_cast<std::uint64_t>(seed);
  const PublishedSizes published = read_published(reader.section("published"));
  auto parts = list_few_shot(source);
  if (!parts) {
    for (const runner::Diagnostic& error : parts.errors())
      reader.fail(error.pointer.substr(1), error.code, error.message, error.help);
  }
  for (std::size_t i = 0; parts && i < kSplitParts; ++i) {
    const FewShotPart& part = (*parts)[i];
    if (options.images.on_corrupt == OnCorrupt::kSkip ||
        part.list.not_taken.count_other_images() == 0)
      continue;
    const auto problem = runner::other_images_error(source.root / part.place, part.list.not_taken);
    reader.fail(name(kFewShotParts[i]), problem.code, problem.message, problem.help);
    break;  // other parts may share the folder and its error
  }
  if (auto errors = reader.finish(); !errors.empty()) return errors;
  options.images.stage = reader.pointer();
  return std::unique_ptr<runner::Stage>(std::make_unique<FewShotStage>(
      std::move(options), *std::move(parts), published, division_words(source)));
}

}  // namespace

extern const runner::StageKind kDataFewShot = {.name = "data.few_shot", .create = create_few_shot};

}  // namespace stages
