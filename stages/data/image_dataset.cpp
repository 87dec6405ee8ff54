#include "stages/data/image_dataset.h"

#include <algorithm>
#include <set>

#include <torch/types.h>

#include "runner/stage/stage.h"
#include "stages/data/image_reader.h"
#include "stages/data/image_transform.h"

namespace stages {
namespace {

using runner::ErrorCode;

constexpr std::uint64_t kCaptionDraw = 1;

/// What the owner of such a file can do about it.
std::string remedy(ErrorCode code) {
  if (code == ErrorCode::kMissingImage) return "the file was there when the run began: put it back, or run again";
  if (code == ErrorCode::kBadAnnotations) return "correct the file that lists the boxes, or set crop_to_box: false";
  if (code == ErrorCode::kUnsupportedImage) {
    return "convert it to " + std::string(runner::kImageFormats) + " or remove it, or set on_corrupt: skip";
  }
  return "repair or remove the file, or set on_corrupt: skip";
}

/// Is it the picture itself that cannot be used?
bool is_picture_fault(ErrorCode code) { return code != ErrorCode::kMissingImage && code != ErrorCode::kBadAnnotations; }

/// What of a picture of `width` x `height` lies in `box`.
Box within(const Box& box, int width, int height) {
  const int left = std::max(box.left, 0), top = std::max(box.top, 0);
  const int right = std::min(box.left + box.width, width), bottom = std::min(box.top + box.height, height);
  if (left >= right || top >= bottom) {
    throw ImageError(ErrorCode::kBadAnnotations, "its box, " + std::to_string(box.width) + " x " +
                                                     std::to_string(box.height) + " at " + std::to_string(box.left) +
                                                     ", " + std::to_string(box.top) + ", is outside its image of " +
                                                     std::to_string(width) + " x " + std::to_string(height));
  }
  return {left, top, right - left, bottom - top};
}

/// How many of a picture's `full` pixels must remain for `part` of them to be at least `wanted`.
std::int64_t enough(std::int64_t full, std::int64_t part, std::int64_t wanted) {
  return (full * wanted + part - 1) / part;
}

/// The pixels of `image` in `box`, which lies in it.
Image cropped(const Image& image, const Box& box) {
  Image part = Image::unset(box.width, box.height);
  for (int row = 0; row < box.height; ++row)
    std::copy_n(image.row(box.top + row) + std::ptrdiff_t{3} * box.left, std::ptrdiff_t{3} * box.width, part.row(row));
  return part;
}

/// `image` itself where the cut takes all of it as it is.
std::shared_ptr<const Image> cut_out(const Cut& cut, std::shared_ptr<const Image> image, Interpolation interpolation) {
  const Box all{0, 0, image->width, image->height};
  if (cut.from == all && cut.window == all && cut.width == all.width && cut.height == all.height) return image;
  return std::make_shared<const Image>(apply(cut, *image, interpolation));
}

}  // namespace

ImageDataset::ImageDataset(std::shared_ptr<const ImageList> list, Part part, ImageDatasetOptions options,
                           std::uint64_t seed, std::shared_ptr<ImageCache> cache)
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
      .tensors = {{"image", {3, side, side}, at::kFloat}, {"label", {}, at::kLong}},
      .classes = list_->classes,
      .transform = transform_json(options_),
      .augmented = trains_ && (changes_images(options_.augment) || templates > 1),
      .captions = list_->captions.texts,
      .class_words = list_->class_words};
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
  for (const ImageFile& file : (*list_)[part_]) labels.push_back(file.label);
  return labels;
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
  for (const std::set<std::int64_t>& of_class : known) captions.emplace_back(of_class.begin(), of_class.end());
  return captions;
}

WatchedDataset::Strangers ImageDataset::take_strangers(std::span<const std::int64_t> indices) const {
  Strangers strangers{.what = "a photograph of a retina"};
  if (!options_.watch) return strangers;
  for (const std::int64_t index : indices) {
    const RetinaWatch::Seen seen = options_.watch->tell(part_, index);
    if (seen != RetinaWatch::Seen::kNothingWrong) ++strangers.count;
    if (seen == RetinaWatch::Seen::kStranger) strangers.untold.push_back(sample_name(index));
  }
  return strangers;
}

std::int64_t ImageDataset::caption(std::int64_t epoch, std::int64_t index) const {
  const std::vector<std::int64_t>& own = captions_of(file(index));
  if (!trains_) return own.front();
  // Beside the numbers that augment the picture.
  Random random({seed_, static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(index), kCaptionDraw});
  return own[static_cast<std::size_t>(random.below(std::ssize(own)))];
}

std::optional<NamedTensors> ImageDataset::sample(std::int64_t epoch, std::int64_t index) const {
  try {
    bool mirrored = false;
    const std::shared_ptr<const Image> image = read(epoch, index, mirrored);
    at::Tensor pixels = torch::empty({3, image->height, image->width});
    normalization_.write(*image, mirrored, pixels.data_ptr<float>());
    NamedTensors sample{{"image", std::move(pixels)}, {"label", torch::scalar_tensor(file(index).label, at::kLong)}};
    if (has_captions()) sample.set("caption", torch::scalar_tensor(caption(epoch, index), at::kLong));
    return sample;
  } catch (const ImageError& error) {
    if (options_.on_corrupt == OnCorrupt::kSkip && is_picture_fault(error.code)) return std::nullopt;
    throw runner::StageError(error.code, "image '" + file(index).name + "': " + error.what())
        .at("/root")
        .in_stage(options_.stage)
        .with_help(remedy(error.code));
  }
}

ImageDataset::Drawn ImageDataset::drawn(const ImageHeader& header, std::int64_t epoch, std::int64_t index) const {
  const int width = header.shown_width(), height = header.shown_height();
  const std::optional<Box>& box = file(index).box;
  const Box used = box ? within(*box, width, height) : Box{0, 0, width, height};
  Drawn result;
  if (trains_) {
    Random random({seed_, static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(index)});
    result.cut = training_cut(used.width, used.height, options_.image_size, options_.resize, options_.augment, random);
    if (changes_pictures(options_.augment)) {
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
                                                const std::optional<PictureChange>& change) const {
  const Interpolation interpolation = options_.resize.interpolation;
  if (!change) return cut_out(cut, std::move(image), interpolation);
  if (options_.augment.random_resized_crop || options_.change_order == ChangeOrder::kPlacesFirst)
    return std::make_shared<const Image>(changed(*cut_out(cut, std::move(image), interpolation), *change));
  auto part = std::make_shared<const Image>(changed(cropped(*image, cut.from), *change));
  Cut rest = cut;
  rest.from = {0, 0, part->width, part->height};
  return cut_out(rest, std::move(part), interpolation);
}

std::shared_ptr<const Image> ImageDataset::read(std::int64_t epoch, std::int64_t index, bool& mirrored) const {
  // Parts share a cache, and a picture may be decoded at eight sizes.
  const auto key = [&](int eighths) {
    return (static_cast<std::uint64_t>(index) * kSplitParts + static_cast<std::uint64_t>(part_)) * 8 +
           static_cast<std::uint64_t>(eighths - 1);
  };
  const auto find = [&](int eighths) { return cache_ ? cache_->find(key(eighths)) : nullptr; };
  const auto file_bytes = [&] { return read_image_file(list_->root / file(index).name); };
  const auto decode = [&](Bytes bytes, int eighths) {
    Image picture = decode_image(bytes, eighths);
    if (options_.look) options_.look(index, picture);
    if (options_.watch) options_.watch->see(part_, index, picture);
    if (options_.preprocessing.does_anything()) picture = preprocessed(std::move(picture), options_.preprocessing);
    auto image = std::make_shared<const Image>(std::move(picture));
    if (cache_) cache_->put(key(eighths), image);
    return image;
  };
  const auto wanted = [&](const ImageHeader& header) {
    const Drawn sample = drawn(header, epoch, index);
    mirrored = sample.cut.mirrored;
    return sample;
  };
  if (options_.decode == Decode::kExact) {
    std::shared_ptr<const Image> whole = find(8);
    if (!whole) whole = decode(file_bytes(), 8);
    const Drawn sample = wanted({whole->width, whole->height});
    return made(std::move(whole), sample.cut, sample.change);
  }

  const std::vector<std::uint8_t> bytes = file_bytes();
  const ImageHeader header = read_image_header(bytes);
  const Drawn sample = wanted(header);
  const Cut& cut = sample.cut;
  const int eighths = smallest_eighths(bytes, header, enough(header.shown_width(), cut.from.width, cut.width),
                                       enough(header.shown_height(), cut.from.height, cut.height));
  std::shared_ptr<const Image> decoded = find(eighths);
  if (!decoded) decoded = decode(bytes, eighths);
  const Cut used = at_size(cut, header, *decoded);
  return made(std::move(decoded), used, sample.change);
}

}  // namespace stages
