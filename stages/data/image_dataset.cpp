#include "stages/data/image_dataset.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <torch/types.h>

#include "runner/shared/stage/stage.h"
#include "runner/shared/text/units.h"
#include "stages/data/erasing.h"
#include "stages/data/image.h"
#include "stages/data/image_transform.h"
#include "stages/data/image_writer.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using runner::ErrorCode;

constexpr std::uint64_t kCaptionDraw = 1;
// The number of images sampled to estimate the size of all images.
constexpr std::int64_t kJudgedBy = 16;
constexpr double kSpare = 1.25;  // a margin: other images may be larger

/// Returns the advice for an unreadable image.
std::string remedy(ErrorCode code) {
  if (code == ErrorCode::kMissingImage)
    return "the file existed when the run started: restore it, or run again";
  if (code == ErrorCode::kBadAnnotations)
    return "correct the file that lists the boxes, or set crop_to_box: false";
  if (code == ErrorCode::kUnsupportedImage) {
    return "convert it to " + std::string(runner::kImageFormats) +
           " or remove it, or set on_corrupt: skip";
  }
  return "repair or remove the file, or set on_corrupt: skip";
}

/// True if the image itself is unusable, rather than missing or incorrectly annotated.
bool is_image_fault(ErrorCode code) {
  return code != ErrorCode::kMissingImage && code != ErrorCode::kBadAnnotations;
}

/// Returns the part of `box` within an image of `width` x `height`. Throws ImageError if there is
/// none.
Box within(const Box& box, int width, int height) {
  const int left = std::max(box.left, 0), top = std::max(box.top, 0);
  const int right = std::min(box.left + box.width, width),
            bottom = std::min(box.top + box.height, height);
  if (left >= right || top >= bottom) {
    throw ImageError(ErrorCode::kBadAnnotations,
                     "its box, " + std::to_string(box.width) + " x " + std::to_string(box.height) +
                         " at " + std::to_string(box.left) + ", " + std::to_string(box.top) +
                         ", is outside the image, which is " + std::to_string(width) + " x " +
                         std::to_string(height));
  }
  return {left, top, right - left, bottom - top};
}

/// Returns the side length to which `full` pixels may be reduced so that a section of `part` pixels
/// keeps at least `wanted`.
std::int64_t enough(std::int64_t full, std::int64_t part, std::int64_t wanted) {
  return (full * wanted + part - 1) / part;
}

/// Applies `cut`; returns `image` itself if the cut changes nothing.
std::shared_ptr<const Image> cut_out(const Cut& cut, std::shared_ptr<const Image> image,
                                     Interpolation interpolation) {
  const Box all{0, 0, image->width, image->height};
  if (cut.from == all && cut.window == all && cut.width == all.width && cut.height == all.height)
    return image;
  return std::make_shared<const Image>(apply(cut, *image, interpolation));
}

}  // namespace

bool has_one_cut(const ImageDatasetOptions& options, bool trains) {
  if (!trains) return true;
  if (options.augment.random_resized_crop) return false;
  return !changes_pixels(options.augment) || options.change_order == ChangeOrder::kPlacesFirst;
}

std::int64_t bytes_to_keep(const ImageList& list, Part part, const ImageDatasetOptions& options,
                           bool trains) {
  const std::vector<ImageFile>& files = list[part];
  const auto count = std::ssize(files);
  const std::int64_t cut =
      std::int64_t{3} * options.image_size * options.image_size + ImageCache::kOverhead;
  if (has_one_cut(options, trains)) return count * cut;
  std::int64_t pixels = 0, seen = 0;
  const std::int64_t looks = std::min(count, kJudgedBy);
  for (std::int64_t i = 0; i < looks; ++i) {
    try {
      const ImageFile& file = files[static_cast<std::size_t>(i * count / looks)];
      const ImageHeader header = read_image_header(read_image_file(list.root / file.name));
      pixels += std::int64_t{3} * header.width * header.height + ImageCache::kOverhead;
      ++seen;
    } catch (const ImageError&) {
      // the error is reported when the image is read
    }
  }
  if (seen == 0) return count * cut;
  return count * static_cast<std::int64_t>(kSpare * static_cast<double>(pixels) /
                                           static_cast<double>(seen));
}

ImageDataset::ImageDataset(std::shared_ptr<const ImageList> list, Part part,
                           ImageDatasetOptions options, std::uint64_t seed,
                           std::shared_ptr<ImageCache> cache)
    : list_(std::move(list)),
      part_(part),
      options_(std::move(options)),
      normalization_(options_.mean, options_.standard_deviation),
      seed_(seed),
      cache_(std::move(cache)) {}

DatasetDescription ImageDataset::describe() const {
  const std::int64_t side = options_.image_size;
  const auto templates = list_->captions.of.empty() ? 0 : list_->captions.of.front().size();
  DatasetDescription description = {
      .size = static_cast<std::int64_t>((*list_)[part_].size()),
      .tensors = {{"image", {3, side, side}, at::kFloat}},
      .classes = list_->classes,
      .has_order = list_->has_order,
      .transform = transform_json(options_),
      .augmented = trains_ && (changes_images(options_.augment) || templates > 1),
      .captions = list_->captions.texts,
      .class_words = list_->class_words};
  if (list_->has_label_sets)
    description.tensors.push_back(
        {std::string(kLabelSet), {std::ssize(list_->classes)}, at::kByte});
  else if (list_->has_targets)
    description.tensors.push_back(
        {std::string(kTarget), {std::ssize(list_->classes)}, at::kDouble});
  else description.tensors.push_back({"label", {}, at::kLong});
  if (has_captions()) description.tensors.push_back({"caption", {}, at::kLong});
  return description;
}

std::shared_ptr<const Dataset> ImageDataset::for_training() const {
  auto view = std::make_shared<ImageDataset>(*this);
  view->trains_ = true;
  return view;
}

std::vector<std::int64_t> ImageDataset::labels() const {
  std::vector<std::int64_t> labels;
  if (list_->has_label_sets || list_->has_targets) return labels;
  for (const ImageFile& file : (*list_)[part_]) labels.push_back(file.label);
  return labels;
}

std::vector<std::int64_t> ImageDataset::label_counts() const {
  if (!list_->has_label_sets) return {};
  std::vector<std::int64_t> counts(list_->classes.size());
  for (const ImageFile& file : (*list_)[part_])
    for (const std::int64_t label : list_->label_sets[static_cast<std::size_t>(file.label_set)])
      ++counts[static_cast<std::size_t>(label)];
  return counts;
}

at::Tensor ImageDataset::targets() const {
  if (!list_->has_targets) return {};
  at::Tensor targets = torch::empty({std::ssize(files()), std::ssize(list_->classes)}, at::kDouble);
  auto* numbers = targets.mutable_data_ptr<double>();
  for (const ImageFile& file : files()) numbers = std::ranges::copy(file.targets, numbers).out;
  return targets;
}

void ImageDataset::add_labels(const ImageFile& file, NamedTensors& sample) const {
  if (list_->has_targets) return sample.set(kTarget, torch::tensor(file.targets, at::kDouble));
  if (!list_->has_label_sets)
    return sample.set("label", torch::scalar_tensor(file.label, at::kLong));
  at::Tensor labels = torch::zeros({std::ssize(list_->classes)}, at::kByte);
  auto* const marks = labels.mutable_data_ptr<std::uint8_t>();
  for (const std::int64_t label : list_->label_sets[static_cast<std::size_t>(file.label_set)])
    marks[label] = 1;
  sample.set(kLabelSet, std::move(labels));
}

std::vector<std::int64_t> ImageDataset::captions() const {
  std::vector<std::int64_t> captions;
  if (!has_captions()) return captions;
  for (const ImageFile& file : (*list_)[part_]) captions.push_back(captions_of(file).front());
  return captions;
}

std::vector<std::vector<std::int64_t>> ImageDataset::captions_of_classes() const {
  if (!has_captions()) return {};
  std::vector<std::set<std::int64_t>> known(list_->classes.size());
  for (const std::vector<ImageFile>& files : list_->parts) {
    for (const ImageFile& file : files)
      known.at(static_cast<std::size_t>(file.label)).insert(captions_of(file).front());
  }
  std::vector<std::vector<std::int64_t>> captions;
  for (const std::set<std::int64_t>& of_class : known)
    captions.emplace_back(of_class.begin(), of_class.end());
  return captions;
}

std::vector<RemarkingDataset::Remarks> ImageDataset::take_remarks(
    std::span<const std::int64_t> indices) const {
  std::vector<Remarks> all;
  if (options_.watch) {
    const std::string subject = " not look like " + std::string(options_.subject->what);
    all.push_back(counted(
        {.of_one = "does" + subject, .of_several = "do" + subject, .metric = "data/strangers"},
        options_.watch->findings(), indices));
  }
  if (options_.reduced) {
    const std::string bits = " 16 bits per channel, of which the lower 8 are dropped";
    all.push_back(
        counted({.of_one = "has" + bits, .of_several = "have" + bits}, *options_.reduced, indices));
  }
  return all;
}

RemarkingDataset::Remarks ImageDataset::counted(Remarks remarks, ImageFindings& findings,
                                                std::span<const std::int64_t> indices) const {
  for (const std::int64_t index : indices) {
    const ImageFindings::Seen seen = findings.report(part_, index);
    if (seen != ImageFindings::Seen::kNothingWrong) ++remarks.count;
    if (seen == ImageFindings::Seen::kUnexpected) remarks.unreported.push_back(sample_name(index));
  }
  return remarks;
}

void ImageDataset::allow(const runner::Allowance& allowance) const {
  if (cache_) cache_->set_limit(std::min(allowance.memory, cache_->most_bytes()));
  if (options_.store) options_.store->open(allowance.cache, allowance.build);
}

std::string ImageDataset::kept_elsewhere() const {
  if (!options_.store || options_.store->folder().empty()) return "";
  return "cropped images that do not fit in memory are stored in '" +
         options_.store->folder().string() + "', " +
         runner::size_text(options_.store->most_bytes()) + " at most";
}

std::int64_t ImageDataset::caption(std::int64_t epoch, std::int64_t index) const {
  const std::vector<std::int64_t>& own = captions_of(file(index));
  if (!trains_) return own.front();
  // A random stream separate from the augmentation's.
  Random random(
      {seed_, static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(index), kCaptionDraw});
  return own[static_cast<std::size_t>(random.below(std::ssize(own)))];
}

std::optional<NamedTensors> ImageDataset::sample(std::int64_t epoch, std::int64_t index) const {
  try {
    bool mirrored = false;
    const std::shared_ptr<const Image> image = read(epoch, index, mirrored);
    at::Tensor pixels = torch::empty({3, image->height, image->width});
    write(*image, mirrored, {epoch, index}, pixels);
    NamedTensors sample{{"image", std::move(pixels)}};
    add_labels(file(index), sample);
    if (has_captions())
      sample.set("caption", torch::scalar_tensor(caption(epoch, index), at::kLong));
    return sample;
  } catch (const ImageError& error) {
    if (options_.on_corrupt == OnCorrupt::kSkip && is_image_fault(error.code)) return std::nullopt;
    throw unreadable(index, error);
  }
}

runner::StageError ImageDataset::unreadable(std::int64_t index, const ImageError& error) const {
  return runner::StageError(error.code, "image '" + file(index).name + "': " + error.what())
      .at("/root")
      .in_stage(options_.stage)
      .with_help(remedy(error.code));
}

std::vector<std::uint8_t> ImageDataset::jpeg_of(std::int64_t index, int side) const {
  constexpr int kQuality = 85;
  try {
    bool mirrored = false;  // never set without augmentation
    const std::shared_ptr<const Image> image = read(/*epoch=*/0, index, mirrored);
    const int shown = std::min(side, image->width);
    const Cut whole{{0, 0, image->width, image->height}, shown, shown, {0, 0, shown, shown}};
    return encode_jpeg(*cut_out(whole, image, options_.resize.interpolation), kQuality);
  } catch (const ImageError& error) {
    throw unreadable(index, error);
  }
}

void ImageDataset::write(const Image& image, bool mirrored, Use use,
                         const at::Tensor& pixels) const {
  const FinalAugment& last = options_.augment.last;
  float* const to = pixels.data_ptr<float>();
  if (!trains_ || last == FinalAugment()) return normalization_.write(image, mirrored, to);
  constexpr std::uint64_t kFinal = 1;  // so that these draws differ from the draws for the cut
  Random random({seed_, static_cast<std::uint64_t>(use.epoch),
                 static_cast<std::uint64_t>(use.index), kFinal});
  const DrawnFinal drawn = drawn_final(last, options_.image_size, random);
  if (drawn.changes_pixels()) {
    Image own = image;
    if (mirrored) flip_columns(own);
    if (drawn.policy) own = with_policy(own, *drawn.policy, last.policy->neighbors);
    for (const OperationAt& step : drawn.steps) own = applied(std::move(own), step);
    normalization_.write(own, /*mirrored=*/false, to);
  } else {
    normalization_.write(image, mirrored, to);
  }
  if (drawn.erased)
    erase(pixels, *drawn.erased, erasing_values(last.erasing->fill, *drawn.erased, random));
}

ImageDataset::Drawn ImageDataset::drawn(const ImageHeader& header, std::int64_t epoch,
                                        std::int64_t index) const {
  const int width = header.shown_width(), height = header.shown_height();
  const std::optional<Box>& box = file(index).box;
  const Box used = box ? within(*box, width, height) : Box{0, 0, width, height};
  Drawn result;
  if (trains_) {
    Random random({seed_, static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(index)});
    result.cut = training_cut(used.width, used.height, options_.image_size, options_.resize,
                              options_.augment, random);
    if (changes_pixels(options_.augment)) {
      result.change = drawn_change(options_.augment, result.cut.mirrored, random);
      result.change->steps = options_.change_order;
      result.cut.mirrored = false;
    }
  } else {
    result.cut = evaluation_cut(used.width, used.height, options_.image_size, options_.resize);
  }
  result.cut.from.left += used.left;
  result.cut.from.top += used.top;
  return result;
}

std::shared_ptr<const Image> ImageDataset::made(std::shared_ptr<const Image> image, const Cut& cut,
                                                const std::optional<ImageChange>& change) const {
  const Interpolation interpolation = options_.resize.interpolation;
  if (!change) return cut_out(cut, std::move(image), interpolation);
  if (options_.augment.random_resized_crop || options_.change_order == ChangeOrder::kPlacesFirst)
    return std::make_shared<const Image>(
        changed(*cut_out(cut, std::move(image), interpolation), *change));
  auto part = std::make_shared<const Image>(changed(cropped(*image, cut.from), *change));
  Cut rest = cut;
  rest.from = {0, 0, part->width, part->height};
  return cut_out(rest, std::move(part), interpolation);
}

std::shared_ptr<const Image> ImageDataset::read(std::int64_t epoch, std::int64_t index,
                                                bool& mirrored) const {
  // An image may be cached in one of eight decoded sizes, or after it was cut.
  constexpr int kCut = 8;
  const auto key = [&](int form) {
    return static_cast<std::uint64_t>(index) * (kCut + 1) + static_cast<std::uint64_t>(form);
  };
  const auto find = [&](int form) { return cache_ ? cache_->find(key(form)) : std::nullopt; };
  const auto wanted = [&](const ImageHeader& header) {
    const Drawn sample = drawn(header, epoch, index);
    mirrored = sample.cut.mirrored;
    return sample;
  };
  const bool is_cut_alike = has_one_cut(options_, trains_);
  const auto of_cut = [&](const KeptImage& kept) {
    const Drawn sample = wanted({kept.width, kept.height});
    return sample.change ? std::make_shared<const Image>(changed(*kept.image, *sample.change))
                         : kept.image;
  };
  if (const auto kept = is_cut_alike ? find(kCut) : std::nullopt) return of_cut(*kept);
  const fs::path path = list_->root / file(index).name;
  ImageStore* const store = is_cut_alike && options_.store && !options_.store->folder().empty()
                                ? options_.store.get()
                                : nullptr;
  std::optional<std::string> stored_as =
      store ? store->known_key(path, file(index).box) : std::nullopt;
  std::optional<std::vector<std::uint8_t>> read_bytes;
  const auto file_bytes = [&]() -> const std::vector<std::uint8_t>& {
    if (!read_bytes) read_bytes = read_image_file(path);
    return *read_bytes;
  };
  if (store) {
    if (!stored_as) stored_as = store->key(path, file(index).box, file_bytes());
    if (const auto stored = store->find(*stored_as)) {
      if (options_.watch) options_.watch->findings().note(part_, index, stored->is_unlike);
      if (options_.reduced && stored->had_16_bits) options_.reduced->note(part_, index, true);
      if (cache_) cache_->put(key(kCut), stored->kept);
      return of_cut(stored->kept);
    }
  }
  bool is_unlike = false, had_16_bits = false;
  const auto decode = [&](Bytes bytes, int eighths) {
    Image picture = decode_image(bytes, eighths);
    had_16_bits = has_16_bits(bytes);
    if (options_.reduced && had_16_bits) options_.reduced->note(part_, index, true);
    if (options_.look) options_.look(index, picture);
    if (options_.watch) is_unlike = options_.watch->see(part_, index, picture);
    if (options_.preprocessing.does_anything())
      picture = preprocessed(std::move(picture), options_.preprocessing);
    return std::make_shared<const Image>(std::move(picture));
  };
  // Applies `cut` to `image`, which was decoded at `eighths`, and caches the decoded or the cut
  // image: the smaller one that can be reused.
  const auto finished = [&](std::shared_ptr<const Image> image, int eighths,
                            const ImageHeader& header, const Drawn& sample, const Cut& cut) {
    const int width = header.shown_width(), height = header.shown_height();
    const std::int64_t pixels_cut = std::int64_t{3} * options_.image_size * options_.image_size;
    if (!is_cut_alike || std::ssize(image->pixels) < pixels_cut) {
      if (cache_) cache_->put(key(eighths - 1), {image, width, height});
      return made(std::move(image), cut, sample.change);
    }
    const KeptImage kept{cut_out(cut, std::move(image), options_.resize.interpolation), width,
                         height};
    const bool is_kept = cache_ && cache_->put(key(kCut), kept);
    if (store && !is_kept) store->put(*stored_as, {kept, is_unlike, had_16_bits});
    return sample.change ? std::make_shared<const Image>(changed(*kept.image, *sample.change))
                         : kept.image;
  };
  if (options_.decode == Decode::kExact) {
    const auto kept = find(7);
    std::shared_ptr<const Image> whole = kept ? kept->image : decode(file_bytes(), 8);
    const ImageHeader header{whole->width, whole->height};
    const Drawn sample = wanted(header);
    return finished(std::move(whole), 8, header, sample, sample.cut);
  }

  const std::vector<std::uint8_t>& bytes = file_bytes();
  const ImageHeader header = read_image_header(bytes);
  const Drawn sample = wanted(header);
  const Cut& cut = sample.cut;
  const int eighths =
      smallest_eighths(bytes, header, enough(header.shown_width(), cut.from.width, cut.width),
                       enough(header.shown_height(), cut.from.height, cut.height));
  const auto kept = find(eighths - 1);
  std::shared_ptr<const Image> decoded = kept ? kept->image : decode(bytes, eighths);
  const Cut used = at_size(cut, header, *decoded);
  return finished(std::move(decoded), eighths, header, sample, used);
}

}  // namespace stages
