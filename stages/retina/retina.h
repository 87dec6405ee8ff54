#pragma once

#include <cstdint>
#include <filesystem>

#include "stages/data/image.h"
#include "stages/data/image_dataset.h"
#include "stages/data/shapes.h"
#include "stages/random/random.h"

namespace stages {

/// A synthetic image of a retina, `size` x `size`: a round orange-red ground on black, with the
/// optic disc, the macula and vessels, and the lesions of `grade`, 0 to 4: none; microaneurysms;
/// these, haemorrhages and exudates; many of them in all quadrants and cotton wool spots; new
/// vessels and bleeding before the retina. Light, colours, position and side of the eye are drawn
/// from `random` in the same way for all grades, so the mean colour does not distinguish them.
/// Realistic enough to test programs; it teaches nothing about patients.
Image draw_retina(std::int64_t grade, int size, Random random);

/// Generate small sets of graded retina images in `folder`, `per_class` of each of the grades 0 to
/// `classes` - 1, of which there are at most five. The folder appears when it is complete, or not
/// at all. They throw as make_image_folder() does.

/// In the layout of APTOS 2019: train.csv (id_code,diagnosis) and train_images/ID.png, with grades
/// in no particular order.
void make_aptos_2019(const std::filesystem::path& folder, const MadeImages& images,
                     const MakeCallbacks& callbacks = {});

/// In the layout of EyePACS, 2015: trainLabels.csv (image,level), train/17_left.jpeg, …,
/// retinopathy_solution.csv (image,level,Usage) and test/…, with about half of the patients each.
/// Both eyes of most patients have the same grade.
void make_eyepacs_2015(const std::filesystem::path& folder, const MadeImages& images,
                       const MakeCallbacks& callbacks = {});

/// {train,val,test}/{0..4}/00001.jpg: a fifth of each grade, but at least one image, for
/// validation, and as many for the test.
void make_fundus_folders(const std::filesystem::path& folder, const MadeImages& images,
                         const MakeCallbacks& callbacks = {});

/// Does `image` look like a photograph of a retina: are its bright pixels orange-red, and do they
/// form a disc, perhaps cut off at two sides, on black? A rough test on 96 x 96 points whatever the
/// image's size. It accepted all of 593 images of a hospital's screening, and two of 300 images of
/// flowers. It rejects an image that is cropped to the inside of the disc, so use it only for a
/// warning.
bool looks_like_retina(const Image& image);

/// The subject of data.fundus.
extern const ImageSubject kRetina;

}  // namespace stages
