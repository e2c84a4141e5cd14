"""The gallery of homes shows what it says."""

from mdpf.report import homes


def test_a_gallery_has_a_row_for_each_home_with_its_map_and_images():
    figure = homes.gallery("validation", count=2, frames=2, stride=1)
    axes = figure.axes
    assert len(axes) == 2 * 4
    shown = [axis.images[0].get_array() for axis in axes[:4]]
    assert [picture.shape[:2] for picture in shown[1:]] == [(56, 56)] * 3
    assert shown[1].std() > 0.01
    assert "m" in axes[0].get_xlabel()
    assert (shown[1] != axes[5].images[0].get_array()).any()
