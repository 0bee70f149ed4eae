//! Devices, as their miners list them.

use assay_api::record::{DeviceRecord, ModelCount};
use assay_api::{DeviceDetail, ListPage};
use assay_program::render::units::gib;
use maud::{Markup, html};
use serde::{Deserialize, Serialize};

use crate::fleet::{field, select};
use crate::frame::{Frame, LiveFilter, NavSection, cards, next, page};
use crate::icon::{Icon, Tone, badge};
use crate::text::{capital, counted, detail, is_choice, name, option, short, whole_id};
use crate::{address, time};

/// The most models that are counted.
const MAX_MODELS: usize = 24;

/// The filter of devices, as the form sends it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DevicesFilter {
    /// The first digits of a key of the miner.
    pub miner: String,
    pub model: String,
    /// `true`: also those that are gone.
    pub gone: String,
    pub cursor: String,
}

impl DevicesFilter {
    /// The address of the list so filtered.
    pub fn address(&self) -> String {
        let Self { miner, model, gone, cursor } = self;
        address::with("/devices", &[("miner", miner), ("model", model), ("gone", gone), ("cursor", cursor)])
    }
}

#[derive(Debug, Clone, Copy)]
pub struct DevicesView<'a> {
    pub frame: Frame<'a>,
    /// A page of those that fit.
    pub devices: &'a ListPage<DeviceRecord>,
    pub filter: &'a DevicesFilter,
    /// The models that are listed now, the most frequent first.
    pub models: &'a [ModelCount],
}

pub fn devices(view: &DevicesView<'_>) -> String {
    let DevicesView { frame, devices, filter, models } = view;
    let cursor = devices.next.as_ref().map(|cursor| cursor.as_str().to_owned());
    let following = cursor.map(|cursor| DevicesFilter { cursor, ..(*filter).clone() }.address());
    let named: Vec<_> = models.iter().filter(|count| is_choice(&count.model)).collect();
    let choices: Vec<_> = named
        .iter()
        .map(|count| (count.model.clone(), format!("{} ({})", option(&count.model), count.devices)))
        .collect();
    let gone = [("true".to_owned(), "Also those that are gone".to_owned())];
    let body = html! {
        div.title { h1 { "Devices" } p.muted { "Names, models and memory are what the miners claim." } }
        ul.counts aria-label="Devices by model" {
            @for count in named.iter().take(MAX_MODELS) {
                li {
                    a href=(DevicesFilter { model: count.model.clone(), ..DevicesFilter::default() }.address())
                        aria-current=[(filter.model == count.model).then_some("true")] {
                        strong { (count.devices) }
                        (name(&count.model)) span.muted { " at " (counted(count.miners.unsigned_abs(), "miner")) }
                    }
                }
            }
        }
        form.filters method="get" action="/devices" role="search" aria-label="Filter devices" {
            (field("miner", "Miner's key", &filter.miner, "search", "first digits"))
            (select("model", "Model", &filter.model, &choices))
            (select("gone", "Gone devices", &filter.gone, &gone))
            button.primary type="submit" { "Filter" }
            @if **filter != DevicesFilter::default() { a.button href="/devices" { "Show all" } }
        }
        @if devices.items.is_empty() {
            p.panel.none { "No device fits." }
        } @else {
            (table(&devices.items, frame.now_ms, true))
        }
        (next(following.as_deref()))
    };
    page(frame, NavSection::Devices, LiveFilter::All, "Devices", &body)
}

/// Devices as a table, with or without their miner.
pub(crate) fn table(devices: &[DeviceRecord], now_ms: i64, with_miner: bool) -> Markup {
    let mut titles = vec!["Device", "State", "Miner", "Model", "#GiB", "Last held", "First seen"];
    titles.retain(|title| with_miner || *title != "Miner");
    cards("Devices", "devices", &titles, &html! { @for device in devices { (row(device, now_ms, with_miner)) } })
}

fn row(device: &DeviceRecord, now_ms: i64, with_miner: bool) -> Markup {
    html! {
        tr id={ "device-" (device.miner) "-" (device.device_id) } {
            th scope="row" {
                a href={ "/devices/" (device.device_id) }
                { (name(&device.name)) }
                span.sub { code { (short(&device.device_id)) } }
            }
            td data-of="State" { (presence(device, now_ms)) }
            @if with_miner {
                td data-of="Miner" { a href={ "/miners/" (device.miner) } { code { (short(&device.miner)) } } }
            }
            td data-of="Model" {
                @if device.model.is_empty() { span.muted { "Unknown" } } @else { (name(&device.model)) }
            }
            td.num data-of="GiB" {
                @if device.memory_bytes > 0 { (gib(device.memory_bytes.unsigned_abs())) } @else { "–" }
            }
            td data-of="Last held" {
                @match device.last_pass_ms { Some(at_ms) => (time::ago(at_ms, now_ms)), None => span.muted { "Never" } }
            }
            td data-of="First seen" { (time::ago(device.first_seen_ms, now_ms)) }
        }
    }
}

fn presence(device: &DeviceRecord, now_ms: i64) -> Markup {
    html! {
        div {
            @match device.gone_ms {
                Some(at_ms) => { (badge(Icon::Offline, Tone::Warn, "Gone")) span.sub { (time::ago(at_ms, now_ms)) } }
                None => (badge(Icon::Online, Tone::Good, "Listed"))
            }
            @if !device.also_at.is_empty() {
                span.sub {
                    (badge(Icon::Doubt, Tone::Bad, "Also elsewhere")) " at "
                    (counted(device.also_at.len() as u64, "other miner"))
                }
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct DeviceView<'a> {
    pub frame: Frame<'a>,
    /// The device, at each miner.
    pub device: &'a DeviceDetail,
}

pub fn device(view: &DeviceView<'_>) -> String {
    let DeviceView { frame, device } = view;
    let title = format!("Device {}", short(&device.device_id));
    let body = html! {
        div.title {
            h1 { "Device " code { (short(&device.device_id)) } }
            p { (whole_id(&device.device_id)) }
        }
        p.muted {
            "An id is a claim: " @if device.at.len() > 1 {
                "several miners list this one, or did."
            } @else {
                "one miner lists this one, or did."
            }
        }
        section aria-labelledby="at" {
            h2 id="at" { "Miners that list it, or did" } (table(&device.at, frame.now_ms, true))
        }
        section aria-labelledby="changes" {
            h2 id="changes" { "Changes" }
            @if device.events.is_empty() { p.none { "None." } }
            ol.history {
                @for event in &device.events {
                    li {
                        (time::at(event.at_ms, frame.now_ms)) br;
                        (capital(&option(&event.what))) " at "
                        a href={ "/miners/" (event.miner) } { code { (short(&event.miner)) } }
                        @if !event.detail.is_empty() { ": " (detail(&event.detail)) }
                    }
                }
            }
        }
    };
    page(frame, NavSection::Devices, LiveFilter::Not, &title, &body)
}
