'use strict';
const all = (selector, from = document) => [...from.querySelectorAll(selector)];
const state = document.getElementById('state');

function show(group) {
	for (const view of all('.view')) view.hidden = view.dataset.group !== group;
	for (const life of all('.life')) life.hidden = group !== '0' && life.dataset.group !== group;
}

for (const input of all('input[name=group]')) {
	input.addEventListener('change', () => {
		show(input.value);
		state.textContent = 'Shown: ' + input.parentElement.textContent;
	});
	// A browser may keep the choice when the page is loaded again.
	if (input.checked) show(input.value);
}

for (const plot of all('.plot')) {
	const figure = plot.closest('figure');
	const heads = all('thead th', figure).map((head) => head.textContent);
	const rows = all('tbody tr', figure).map((row) => [...row.cells].map((cell) => cell.textContent));
	const places = plot.dataset.places.split(' ').map(Number);
	const cursor = plot.querySelector('.cursor');
	const output = figure.querySelector('output');
	let at = 0;

	const move = (to) => {
		at = Math.max(0, Math.min(places.length - 1, to));
		const text = rows[at].map((cell, column) => heads[column] + ' ' + (cell || '–')).join(', ');
		plot.setAttribute('aria-valuenow', at);
		plot.setAttribute('aria-valuetext', text);
		cursor.hidden = false;
		cursor.style.left = places[at] + '%';
		output.textContent = text;
	};
	const point = (event) => {
		const box = plot.getBoundingClientRect();
		const x = ((event.clientX - box.left) / box.width) * 100;
		const distances = places.map((place) => Math.abs(place - x));
		move(distances.indexOf(Math.min(...distances)));
	};
	const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10 };

	plot.addEventListener('pointermove', point);
	plot.addEventListener('click', point);
	plot.addEventListener('focus', () => move(at));
	plot.addEventListener('keydown', (event) => {
		if (event.key in steps) move(at + steps[event.key]);
		else if (event.key === 'Home') move(0);
		else if (event.key === 'End') move(places.length - 1);
		else return;
		event.preventDefault();
	});
}
